-- How PostgreSQL keeps the indexes of messages; other databases that speak its dialect can do without this file.

-- A lease writes a second entry beside the first one of its id: room that is kept for it spares merging and splitting pages.
ALTER INDEX topic_messages_pkey SET (fillfactor = 50, deduplicate_items = off);
-- Every create writes here, next to nobody reads: merging equal entries costs more than the room that it saves.
ALTER INDEX topic_messages_group SET (deduplicate_items = off);
