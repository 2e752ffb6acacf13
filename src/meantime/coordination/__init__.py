"""ZooKeeper, and nothing but ZooKeeper: session, membership, election and the version barrier."""
