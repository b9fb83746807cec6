-- What a chunk is found and filtered by besides its text: its refs and tags.

-- Each ref by its words, and by its last part as a whole: packages/shop/compose.yaml is found by
-- "compose.yaml" and by "the compose file".
CREATE FUNCTION ref_words(refs text[]) RETURNS tsvector IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT coalesce(memory.memory_tsv(string_agg(regexp_replace(ref, '^.*/(?=.)', '') || ' '
    || regexp_replace(ref, '[^[:alnum:]]+', ' ', 'g'), ' ')), '') FROM unnest(refs) ref $$;

ALTER TABLE chunks ADD COLUMN tags text[] NOT NULL DEFAULT '{}';
UPDATE chunks SET tags = events.tags FROM events
  WHERE events.tags <> '{}' AND (chunks.tenant_id, chunks.event_id) = (events.tenant_id, events.event_id);
ALTER TABLE chunks DROP COLUMN tsv;
ALTER TABLE chunks ADD COLUMN tsv tsvector
  GENERATED ALWAYS AS (memory_tsv(text) || ref_words(refs)) STORED;
-- 10,000 words with their frequencies, not 1,000: a word that is not listed counts as rare.
ALTER TABLE chunks ALTER COLUMN tsv SET STATISTICS 1000;
CREATE INDEX chunks_words ON chunks USING gin (tsv);
CREATE INDEX ON chunks (tenant_id, session_id, ts, chunk_id);

-- A decision is found by its chunk.
ALTER TABLE decisions DROP COLUMN tsv, DROP COLUMN model, DROP COLUMN vector;
