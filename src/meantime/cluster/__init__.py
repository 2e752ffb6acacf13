"""What a node knows of its peers: their clocks, cluster time, and whether this node may be trusted."""
