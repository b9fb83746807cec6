-- How a bundle is searched. Run at every start, so that it always fits the program.
DROP FUNCTION IF EXISTS acb_candidates;

-- The words of a question; a text matches if it has any of them.
CREATE OR REPLACE FUNCTION any_word(question text) RETURNS tsquery IMMUTABLE LANGUAGE sql AS $$
  SELECT string_agg(array_to_tsvector(ARRAY[word])::text, '|')::tsquery
  FROM unnest(tsvector_to_array(memory_tsv(question))) word $$;

-- What took the place of an event, if anything did: of a superseded decision the one that is in
-- force now; of a finished task's update the last one. `note` is for its heading.
CREATE OR REPLACE FUNCTION replacement(event text)
RETURNS TABLE (replaced_by text, note text) STABLE LANGUAGE sql AS $$
  WITH RECURSIVE newer AS (
    SELECT superseded_by AS id, 1 AS step FROM decisions
    WHERE decision_id = event
    UNION ALL
    SELECT superseded_by, step + 1 FROM newer JOIN decisions ON decision_id = id
    WHERE superseded_by IS NOT NULL AND step < 1000)
  (SELECT id, format('superseded by %s on %s', id, to_char(ts AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
   FROM newer JOIN decisions ON decision_id = id
   ORDER BY step DESC LIMIT 1)
  UNION ALL
  SELECT nullif(tasks.event_id::text, event),
    format('task %s, done on %s', task_id, to_char(tasks.ts AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
  FROM events JOIN tasks ON task_id = task->>'task_id'
  WHERE events.event_id = event AND tasks.status = 'done'
$$;

-- From 1 for what is new to 0, by its age; of a time that was asked for, 1, else 0.
CREATE OR REPLACE FUNCTION newness(ts timestamptz, since timestamptz, until timestamptz)
RETURNS float8 STABLE LANGUAGE sql AS $$
  SELECT CASE WHEN since IS NULL THEN exp(-greatest(extract(epoch FROM now() - ts), 0)::float8 / (30 * 86400))
    ELSE (ts BETWEEN since AND until)::int::float8 END $$;

-- How much of a question's words a text has: ts_rank by rarity, and the rarities of those it has.
CREATE OR REPLACE FUNCTION words_of(tsv tsvector, terms tsquery[], weights float8[])
RETURNS TABLE (ranks float8, rarity float8) IMMUTABLE LANGUAGE sql AS $$
  SELECT coalesce(sum(w * rank), 0), coalesce(sum(w) FILTER (WHERE rank > 0), 0)
  FROM (SELECT w, ts_rank(tsv, term) AS rank FROM unnest(terms, weights) AS t(term, w)
        OFFSET 0) each $$; -- without it, each rank would be computed twice

-- The one search. The full-text operator is not leakproof, so under row level security its index is
-- not used (357 ms instead of 1.0 ms at 100,000 rows). Therefore the search runs as the owner, and
-- takes the tenant from the transaction's setting, as the policies do, never from an argument.
--
-- Words: the sum over the question's words of ln(1 / frequency) x ts_rank, with the frequencies that
-- ANALYZE keeps, divided by the best candidate's; times the share of the question's rarity that the
-- chunk has, so that a chance hit counts little. The number of candidates is bounded: the newest
-- `budget` chunks with any of the rarest words (as many words as occur in about `budget` chunks),
-- and those of the newest `recent` chunks with any of the words.
-- Meaning: the cosine with `meaning`, the question's vector; the nearest chunks are candidates, if
-- they are at least half as near as the nearest.
-- Newness: by age, or whether a chunk is of the time from `since` to `until`, which the question
-- names; the newest of that time are candidates.
-- Neighbours: the ten best bring the two chunks before and after each in its session.
-- With `these`, the first chunks of those events are the candidates, without neighbours.
CREATE FUNCTION acb_candidates(question text, request text, agent text, recency float8,
  meaning text DEFAULT NULL, weight float8 DEFAULT 0.4, since timestamptz DEFAULT NULL,
  until timestamptz DEFAULT NULL, tagged text[] DEFAULT '{}', these text[] DEFAULT NULL,
  budget int DEFAULT 5000, recent int DEFAULT 1000, top int DEFAULT 200)
RETURNS TABLE (event_id text, chunk_id text, score float8, by_words float8, by_meaning float8,
  by_newness float8, by_importance float8, by_neighbours float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = memory, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  tenant constant text := nullif(current_setting('app.tenant', true), '');
  nearest constant int := 20; -- with more, a bundle fills with what has nothing to do with it
  terms tsquery[]; weights float8[]; any_term tsquery; rare tsquery; ids text[]; cosines float8[];
BEGIN
  IF these = '{}' THEN RETURN; END IF; -- there are no decisions
  WITH listed AS (
    SELECT unnest(most_common_elems::text::text[]) AS word, unnest(most_common_elem_freqs) AS freq
    FROM pg_stats WHERE schemaname = 'memory' AND tablename = 'chunks' AND attname = 'tsv'),
  known AS ( -- an unlisted word counts as half as frequent as the rarest listed one
    SELECT greatest(reltuples, 1) AS rows,
      coalesce((SELECT min(freq) FROM listed WHERE word IS NOT NULL) / 2, 0.01) AS floor
    FROM pg_class WHERE oid = 'memory.chunks'::regclass),
  words AS (
    SELECT array_to_tsvector(ARRAY[asked.word])::text AS term,
      least(coalesce(listed.freq, floor), 0.99)::float8 AS freq, rows
    FROM unnest(tsvector_to_array(memory_tsv(question))) asked(word) CROSS JOIN known
    LEFT JOIN listed ON listed.word = asked.word
    ORDER BY 2 LIMIT 32), -- more words make a search slow, not better
  counted AS (
    SELECT *, sum(freq * rows) OVER (ORDER BY freq, term) AS expected, row_number() OVER (ORDER BY freq, term) AS nth
    FROM words)
  SELECT array_agg(term::tsquery), array_agg(ln(1 / freq)), string_agg(term, '|')::tsquery,
    (string_agg(term, '|') FILTER (WHERE nth = 1 OR expected <= budget))::tsquery
  INTO terms, weights, any_term, rare FROM counted;

  WITH found AS MATERIALIZED (
    (SELECT chunk_id FROM chunks WHERE these IS NULL AND tenant_id = tenant AND tsv @@ rare AND tags @> tagged
       AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT budget)
    UNION
    (SELECT chunk_id FROM
      (SELECT * FROM -- skips at most so many that it may not see
        (SELECT * FROM chunks WHERE these IS NULL AND tenant_id = tenant ORDER BY ts DESC LIMIT recent * 20) newest
       WHERE tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT recent) seen
     WHERE tsv @@ any_term)
    UNION
    (SELECT chunk_id FROM chunks WHERE these IS NULL AND tenant_id = tenant AND ts BETWEEN since AND until
       AND tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT 50)
    UNION SELECT event || '.0' FROM unnest(these) event),
  ranked AS (
    SELECT chunk_id, 0.6 * ranks * rarity / nullif(max(ranks) OVER () * (SELECT sum(w) FROM unnest(weights) w), 0)
      + 0.1 * importance + recency * newness(ts, since, until) AS score
    FROM found JOIN chunks USING (chunk_id), words_of(tsv, terms, weights) WHERE tenant_id = tenant)
  SELECT array_agg(chunk_id) INTO ids FROM
    (SELECT chunk_id FROM ranked ORDER BY score DESC NULLS LAST, chunk_id
     LIMIT CASE WHEN these IS NULL THEN 2 * top END) best;

  IF meaning IS NOT NULL THEN -- only then is there a column `embedding`
    PERFORM set_config('hnsw.iterative_scan', 'relaxed_order', true);
    IF these IS NULL THEN
      ids := ARRAY(SELECT unnest(ids) UNION
        (SELECT chunk_id FROM (SELECT chunk_id, cosine, max(cosine) OVER () AS best FROM
          (SELECT chunk_id, 1 - (embedding <=> meaning::halfvec) AS cosine FROM chunks
           WHERE tenant_id = tenant AND tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent)
           ORDER BY embedding <=> meaning::halfvec LIMIT nearest) near) compared
         WHERE cosine >= best / 2 AND cosine > 0 AND cosine < 'NaN'));
    END IF;
    cosines := ARRAY(SELECT coalesce(nullif(1 - (embedding <=> meaning::halfvec), 'NaN'), 0)
      FROM unnest(ids) WITH ORDINALITY AS i(chunk_id, nth) JOIN chunks USING (chunk_id)
      WHERE tenant_id = tenant ORDER BY nth);
  END IF;

  RETURN QUERY
  WITH scored AS MATERIALIZED (
    SELECT chunks.*, greatest(coalesce(cosine, 0), 0) * weight AS by_meaning, coalesce(
      0.6 * ranks * rarity / nullif(max(ranks) OVER () * (SELECT sum(w) FROM unnest(weights) w), 0), 0) AS by_words
    FROM unnest(ids, cosines) AS i(chunk_id, cosine) JOIN chunks USING (chunk_id),
      words_of(tsv, terms, weights)
    WHERE tenant_id = tenant),
  hits AS MATERIALIZED (
    SELECT *, by_words + by_meaning AS strength FROM scored
    ORDER BY by_words + by_meaning + 0.1 * importance + recency * newness(ts, since, until) DESC, chunk_id
    LIMIT CASE WHEN these IS NULL THEN 10 ELSE 0 END),
  near AS (
    SELECT beside.chunk_id, sum(0.3 * strength / nth) AS by_neighbours FROM hits, LATERAL (
      (SELECT chunk_id, row_number() OVER (ORDER BY ts DESC, chunk_id DESC) AS nth FROM chunks
       WHERE tenant_id = tenant AND session_id = hits.session_id AND (ts, chunk_id) < (hits.ts, hits.chunk_id)
         AND tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent)
       ORDER BY ts DESC, chunk_id DESC LIMIT 2)
      UNION ALL
      (SELECT chunk_id, row_number() OVER (ORDER BY ts, chunk_id) FROM chunks
       WHERE tenant_id = tenant AND session_id = hits.session_id AND (ts, chunk_id) > (hits.ts, hits.chunk_id)
         AND tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent)
       ORDER BY ts, chunk_id LIMIT 2)) beside
    WHERE strength > 0 GROUP BY 1),
  parts AS (
    SELECT chunk_id, coalesce(by_words, 0) AS by_words, coalesce(by_meaning, 0) AS by_meaning,
      coalesce(by_neighbours, 0) AS by_neighbours
    FROM scored FULL JOIN near USING (chunk_id))
  SELECT event_id::text, chunk_id::text, by_words + by_meaning + n.newness + i.important + by_neighbours AS score,
    by_words, by_meaning, n.newness, i.important, by_neighbours
  FROM parts JOIN chunks USING (chunk_id), LATERAL (SELECT recency * newness(ts, since, until) AS newness) n,
    LATERAL (SELECT (0.1 * importance)::float8 AS important) i
  WHERE tenant_id = tenant ORDER BY 3 DESC, chunk_id LIMIT top;
END $$;
REVOKE ALL ON FUNCTION acb_candidates FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acb_candidates TO memory_daemon;
