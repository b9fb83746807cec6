-- The words of a question; a text matches if it has any of them.
CREATE FUNCTION any_word(question text) RETURNS tsquery IMMUTABLE LANGUAGE sql AS $$
  SELECT string_agg(array_to_tsvector(ARRAY[word])::text, '|')::tsquery
  FROM unnest(tsvector_to_array(memory_tsv(question))) word $$;

-- The one search. The full-text operator is not leakproof, so under row level security its index is
-- not used (357 ms instead of 1.0 ms at 100,000 rows). Therefore the search runs as the owner, and
-- takes the tenant from the transaction's setting, as the policies do, never from an argument.
--
-- A chunk's words count by rarity: the sum over the question's words of ln(1 / frequency) x ts_rank,
-- with the frequencies that ANALYZE keeps. The number of candidates is bounded: the newest `budget`
-- chunks with any of the rarest words (as many words as occur in about `budget` chunks), and those
-- of the newest `recent` chunks with any of the words.
CREATE FUNCTION acb_candidates(question text, request text, agent text, recency double precision,
  budget int DEFAULT 5000, recent int DEFAULT 1000, top int DEFAULT 200)
RETURNS TABLE (event_id text, ts timestamptz, actor_type text, actor_id text, kind text, refs text[],
  token_est int, text text, score double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = memory, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  tenant constant text := nullif(current_setting('app.tenant', true), '');
  terms tsquery[]; weights float8[]; any_term tsquery; rare tsquery;
BEGIN
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

  RETURN QUERY
  WITH found AS MATERIALIZED (
    (SELECT chunk_id FROM chunks WHERE tenant_id = tenant AND tsv @@ rare
       AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT budget)
    UNION
    (SELECT chunk_id FROM
      (SELECT * FROM -- skips at most so many that it may not see
        (SELECT * FROM chunks WHERE tenant_id = tenant ORDER BY ts DESC LIMIT recent * 20) newest
       WHERE visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT recent) seen
     WHERE tsv @@ any_term)),
  ranked AS MATERIALIZED (
    SELECT chunk_id, ts, importance, (SELECT sum(weight * ts_rank(tsv, term))
      FROM unnest(terms, weights) AS t(term, weight)) AS words
    FROM found JOIN chunks USING (chunk_id) WHERE tenant_id = tenant),
  best AS (
    SELECT chunk_id, 0.6 * words / nullif(max(words) OVER (), 0) + 0.1 * importance
      + recency * exp(-greatest(extract(epoch FROM now() - ts), 0) / (30 * 86400)) AS score
    FROM ranked ORDER BY 2 DESC LIMIT top)
  SELECT event_id::text, ts, actor_type, actor_id, kind::text, refs, token_est, chunks.text, best.score::float8
  FROM best JOIN chunks USING (chunk_id) WHERE tenant_id = tenant ORDER BY best.score DESC, chunk_id;
END $$;
REVOKE ALL ON FUNCTION acb_candidates FROM PUBLIC;
GRANT EXECUTE ON FUNCTION acb_candidates TO memory_daemon;
