-- The nodes that a switch went on without, because they did not answer.
ALTER TABLE switches ADD COLUMN overtaken text[] NOT NULL DEFAULT '{}';
