-- How a switch went: [{"name", "ms"}] for each phase, and [{"node", "ms"}] for when each node had acknowledged the lock.
ALTER TABLE switches ADD COLUMN phases jsonb NOT NULL DEFAULT '[]';
ALTER TABLE switches ADD COLUMN acknowledged jsonb NOT NULL DEFAULT '[]';
