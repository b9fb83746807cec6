-- The whole schema. It creates what is missing, for it is run again when there may be pgvector.
CREATE SCHEMA IF NOT EXISTS memory;
SET LOCAL search_path = memory, pg_temp;

-- English words by their stems. Chinese and Japanese have no spaces between words, and Korean glues
-- particles to them, so runs of those letters count as pairs of letters too.
CREATE OR REPLACE FUNCTION words(body text) RETURNS tsvector IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT to_tsvector('english', regexp_replace(body, '([A-Za-z0-9_])([가-힣ぁ-ヿ一-鿿])', '\1 \2', 'g'))
    || to_tsvector('simple', coalesce((SELECT string_agg(substr(run[1], i, 2), ' ')
       FROM regexp_matches(body, '([가-힣ぁ-ヿ一-鿿]+)', 'g') run, generate_series(1, greatest(length(run[1]) - 1, 1)) i), '')) $$;

-- The whole policy: may a request on channel `request` by agent `agent` see such a row?
-- Nobody sees a secret.
CREATE OR REPLACE FUNCTION visible(channel text, sensitivity text, actor text, request text, agent text)
RETURNS boolean IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT CASE request
    WHEN 'private' THEN (channel <> 'private' OR actor = agent) AND sensitivity IN ('none', 'low', 'high')
    WHEN 'agent' THEN channel IN ('agent', 'team', 'public') AND sensitivity IN ('none', 'low')
    WHEN 'team' THEN channel IN ('team', 'public') AND sensitivity IN ('none', 'low')
    WHEN 'public' THEN channel = 'public' AND sensitivity = 'none' ELSE false END $$;

CREATE TABLE IF NOT EXISTS tokens ( -- only the owner reads it
  sha256 bytea PRIMARY KEY, tenant_id text NOT NULL CHECK (tenant_id <> ''), agent text NOT NULL,
  channel text NOT NULL, may_rule boolean NOT NULL, made timestamptz NOT NULL DEFAULT now());

-- Everything depends on `events`: to forget one removes its chunks, decision, task and artifact.
CREATE TABLE IF NOT EXISTS events (
  tenant_id text NOT NULL, event_id text NOT NULL,
  ts timestamptz NOT NULL, recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(), -- when it happened; was told
  session_id text NOT NULL, channel text NOT NULL, actor_type text NOT NULL,
  actor_id text NOT NULL, said_by text NOT NULL, -- the agent that recorded it; who said it, or which tool
  to_agent text, task_id text, -- whom a handoff is for; which task an update is about
  kind text NOT NULL, sensitivity text NOT NULL, tags text[] NOT NULL, content jsonb NOT NULL, refs text[] NOT NULL,
  digest bytea NOT NULL, -- tells an event sent again from another with the same id
  PRIMARY KEY (tenant_id, event_id)); -- so that no tenant can take another's ids
CREATE INDEX IF NOT EXISTS events_time ON events (tenant_id, ts);
CREATE INDEX IF NOT EXISTS events_session ON events (tenant_id, session_id, ts);
CREATE INDEX IF NOT EXISTS events_tags ON events USING gin (tags);
CREATE INDEX IF NOT EXISTS events_content ON events USING gin (content jsonb_path_ops);
CREATE INDEX IF NOT EXISTS events_handoffs ON events (tenant_id, to_agent, ts) WHERE to_agent IS NOT NULL;
CREATE INDEX IF NOT EXISTS events_tasks ON events (tenant_id, task_id, recorded_at DESC) WHERE task_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS chunks (
  tenant_id text NOT NULL, chunk_id text NOT NULL, event_id text NOT NULL,
  ts timestamptz NOT NULL, session_id text NOT NULL, kind text NOT NULL, channel text NOT NULL,
  sensitivity text NOT NULL CHECK (sensitivity <> 'secret'), actor_id text NOT NULL,
  tags text[] NOT NULL, refs text[] NOT NULL, named text NOT NULL, -- the words of its refs
  heading text NOT NULL, text text NOT NULL, token_est int NOT NULL, -- of both, as they are shown
  importance real NOT NULL, gist bigint, -- differs in few bits from that of a text in nearly the same words
  tsv tsvector GENERATED ALWAYS AS (words(text || ' ' || named)) STORED,
  PRIMARY KEY (tenant_id, chunk_id), FOREIGN KEY (tenant_id, event_id) REFERENCES events ON DELETE CASCADE)
  WITH (toast_tuple_target = 8160); -- a search reads thousands of tsv: none is compressed
-- 10,000 words with their frequencies, not 1,000: a word that is not listed counts as rare.
ALTER TABLE chunks ALTER COLUMN tsv SET STATISTICS 1000;
CREATE INDEX IF NOT EXISTS chunks_words ON chunks USING gin (tsv);
CREATE INDEX IF NOT EXISTS chunks_time ON chunks (tenant_id, ts DESC);
CREATE INDEX IF NOT EXISTS chunks_kind ON chunks (tenant_id, kind);
CREATE INDEX IF NOT EXISTS chunks_session ON chunks (tenant_id, session_id, ts, chunk_id);
CREATE INDEX IF NOT EXISTS chunks_event ON chunks (tenant_id, event_id);

CREATE TABLE IF NOT EXISTS decisions (
  tenant_id text NOT NULL, decision_id text NOT NULL, ts timestamptz NOT NULL, superseded_by text,
  status text GENERATED ALWAYS AS (CASE WHEN superseded_by IS NULL THEN 'active' ELSE 'superseded' END) STORED,
  scope text NOT NULL, decision text NOT NULL, rationale text[] NOT NULL, constraints text[] NOT NULL,
  alternatives text[] NOT NULL, consequences text[] NOT NULL, refs text[] NOT NULL,
  PRIMARY KEY (tenant_id, decision_id), FOREIGN KEY (tenant_id, decision_id) REFERENCES events ON DELETE CASCADE);
CREATE INDEX IF NOT EXISTS decisions_status ON decisions (tenant_id, status, ts DESC);
CREATE INDEX IF NOT EXISTS decisions_refs ON decisions USING gin (refs);

-- A task is as its latest update says; its title is the last that was given, or how the first begins.
CREATE OR REPLACE VIEW tasks WITH (security_invoker = true) AS
  SELECT tenant_id, task_id, event_id, ts, content->'task'->>'status' AS status,
    (SELECT coalesce((array_agg(given ORDER BY recorded_at DESC) FILTER (WHERE given <> ''))[1], (array_agg(begins ORDER BY recorded_at))[1])
     FROM (SELECT recorded_at, content->'task'->>'title' AS given, left(split_part(ltrim(content->>'text'), E'\n', 1), 200) AS begins
           FROM events t WHERE (t.tenant_id, t.task_id, t.channel, t.sensitivity) = (last.tenant_id, last.task_id, last.channel, last.sensitivity)) said) AS title,
    coalesce(content->>'text', content->>'excerpt_text') AS details, refs
  FROM (SELECT DISTINCT ON (tenant_id, task_id) * FROM events WHERE task_id IS NOT NULL
        ORDER BY tenant_id, task_id, recorded_at DESC) last;

CREATE TABLE IF NOT EXISTS artifacts ( -- what is shown as an excerpt, or has a name
  tenant_id text NOT NULL, artifact_id text NOT NULL, ts timestamptz NOT NULL, kind text NOT NULL,
  bytes bytea NOT NULL, meta jsonb NOT NULL, refs text[] NOT NULL,
  PRIMARY KEY (tenant_id, artifact_id), FOREIGN KEY (tenant_id, artifact_id) REFERENCES events ON DELETE CASCADE);

-- The second wall between tenants. Not FORCE: the owner, who searches on behalf of the serving role,
-- could then use neither the index on words nor the statistics.
DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY ARRAY['events', 'chunks', 'decisions', 'artifacts'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('DROP POLICY IF EXISTS one_tenant ON %I', name);
    EXECUTE format('CREATE POLICY one_tenant ON %I USING (tenant_id = current_setting(''app.tenant'', true))', name);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO memory_daemon', name);
  END LOOP; END $$;
GRANT UPDATE (superseded_by) ON decisions TO memory_daemon;
GRANT SELECT ON tasks TO memory_daemon;
GRANT USAGE ON SCHEMA memory TO memory_daemon;

-- Meaning, where there is pgvector; elsewhere nothing is near to anything.
DO $meaning$ DECLARE place text; BEGIN
  BEGIN CREATE EXTENSION IF NOT EXISTS vector SCHEMA memory;
  EXCEPTION WHEN OTHERS THEN NULL; -- not installed, or not this user's to create
  END;
  SELECT extnamespace::regnamespace INTO place FROM pg_extension
  WHERE extname = 'vector' AND string_to_array(extversion, '.')::int[] >= '{0,8}'; -- which goes on until enough is found
  IF place IS NULL THEN
    CREATE OR REPLACE FUNCTION nearness(chunk chunks, meaning text) RETURNS float8 LANGUAGE sql AS 'SELECT NULL::float8';
    CREATE OR REPLACE FUNCTION nearest(tenant text, request text, agent text, meaning text, tagged text[])
      RETURNS SETOF tid LANGUAGE sql AS 'SELECT NULL::tid WHERE false';
  ELSE
    EXECUTE format($$
      ALTER TABLE chunks ADD COLUMN IF NOT EXISTS embedding %1$s.halfvec(256);
      CREATE INDEX IF NOT EXISTS chunks_meaning ON chunks USING hnsw (embedding %1$s.halfvec_cosine_ops) WITH (m = 8, ef_construction = 32);
      CREATE OR REPLACE FUNCTION nearness(chunk chunks, meaning text) RETURNS float8 IMMUTABLE LANGUAGE sql AS
        'SELECT 1 - (chunk.embedding OPERATOR(%1$s.<=>) meaning::%1$s.halfvec)';
      CREATE OR REPLACE FUNCTION nearest(tenant text, request text, agent text, meaning text, tagged text[])
        RETURNS SETOF tid STABLE LANGUAGE sql AS
        'SELECT ctid FROM (SELECT ctid, embedding OPERATOR(%1$s.<=>) meaning::%1$s.halfvec AS distance FROM chunks
           WHERE tenant_id = tenant AND tags @> tagged AND visible(channel, sensitivity, actor_id, request, agent)
           ORDER BY 2 LIMIT 200) near WHERE distance < 1'$$, place);
  END IF; END $meaning$;

-- The one search. The full-text operator is not leakproof, so under row-level security its index is
-- not used (357 ms instead of 1 ms at 100,000 rows). Therefore the search runs as the owner, and
-- takes the tenant from the transaction's setting, as the policies do, never from an argument.
--
-- Candidates: the newest 5,000 chunks with any of the rarest words (as many words as occur in about
-- so many chunks), the 200 nearest in meaning, the newest 1,500, which fill what is left, and those
-- in `decided`. Words: the sum over the question's words of ln(1 / frequency) × ts_rank, with the
-- frequencies that ANALYZE keeps, divided by the best candidate's, times the share of the question's
-- rarity that the chunk has. Neighbours: the ten best bring the two chunks before and after each in
-- its session. Late, after all else, come what its session says again later in nearly the same words,
-- a fourth chunk of one event, and what was superseded. Returned as evidence is what fits into `room` tokens;
-- and of `decided` the 50 nearest, by meaning rather than by words.
DROP FUNCTION IF EXISTS find;
CREATE FUNCTION find(question text, request text, agent text, recency float8, meaning text, room float8, tagged text[], decided text[])
RETURNS TABLE (section text, nth bigint, chunk_id text, by_words float8, by_meaning float8, by_newness float8,
  by_importance float8, by_neighbours float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = memory, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off
SET random_page_cost = 1.1 AS $$
#variable_conflict use_column
DECLARE tenant constant text := nullif(current_setting('app.tenant', true), ''); terms tsquery[]; weights float8[]; rare tsquery;
BEGIN
  WITH listed AS (SELECT unnest(most_common_elems::text::text[]) AS word, unnest(most_common_elem_freqs) AS freq
      FROM pg_stats WHERE schemaname = 'memory' AND tablename = 'chunks' AND attname = 'tsv'),
    known AS (SELECT coalesce((SELECT min(freq) FROM listed WHERE word IS NOT NULL) / 2, 0.01) AS floor,
      (SELECT greatest(reltuples, 1) FROM pg_class WHERE oid = 'memory.chunks'::regclass) AS rows),
    asked AS (SELECT array_to_tsvector(ARRAY[w])::text AS term, least(coalesce(freq, floor), 0.99)::float8 AS freq, rows
      FROM unnest(tsvector_to_array(words(question))) w CROSS JOIN known LEFT JOIN listed ON word = w
      ORDER BY 2 LIMIT 32), -- more words make a search slow, not better
    counted AS (SELECT *, row_number() OVER rarest AS nth, sum(freq * rows) OVER rarest AS expected FROM asked
      WINDOW rarest AS (ORDER BY freq, term))
  SELECT array_agg(term::tsquery), array_agg(ln(1 / freq)),
    (string_agg(term, '|') FILTER (WHERE nth = 1 OR expected <= 5000))::tsquery INTO terms, weights, rare FROM counted;
  RETURN QUERY
  WITH candidates AS (
    (SELECT ctid FROM chunks WHERE room > 0 AND tenant_id = tenant AND tsv @@ rare AND tags @> tagged
       AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT 5000)
    UNION (SELECT ctid FROM chunks WHERE room > 0 AND tenant_id = tenant AND tags @> tagged
       AND visible(channel, sensitivity, actor_id, request, agent) ORDER BY ts DESC LIMIT 1500)
    UNION (SELECT near FROM nearest(tenant, request, agent, meaning, tagged) near WHERE room > 0 AND meaning IS NOT NULL)
    UNION (SELECT ctid FROM chunks WHERE tenant_id = tenant AND chunk_id = ANY(decided))),
  ranked AS MATERIALIZED (
    SELECT c.chunk_id, c.event_id, c.session_id, c.ts, c.token_est, c.gist, 0.1 * c.importance::float8 AS by_importance, ranks, rarity,
      0.4 * greatest(coalesce(nullif(nearness(c, meaning), 'NaN'), 0), 0) AS by_meaning
    FROM candidates JOIN chunks c ON c.ctid = candidates.ctid, LATERAL (
      SELECT coalesce(sum(w * rank), 0) AS ranks, coalesce(sum(w) FILTER (WHERE rank > 0), 0) AS rarity
      FROM (SELECT w, ts_rank(c.tsv, term) AS rank FROM unnest(terms, weights) AS t(term, w) OFFSET 0) each) found
    WHERE c.tenant_id = tenant AND visible(c.channel, c.sensitivity, c.actor_id, request, agent)),
  hits AS MATERIALIZED (
    SELECT *, coalesce(0.6 * ranks * rarity / nullif(max(ranks) OVER () * (SELECT sum(w) FROM unnest(weights) w), 0), 0) AS by_words,
      recency * exp(-least(greatest(extract(epoch FROM now() - ts), 0)::float8 / (30 * 86400), 700)) AS by_newness FROM ranked),
  beside AS MATERIALIZED (
    SELECT b.chunk_id, sum(0.3 * strength / nth) AS by_neighbours
    FROM (SELECT *, by_words + by_meaning AS strength FROM hits WHERE room > 0 AND by_words + by_meaning > 0
          ORDER BY by_words + by_meaning + by_importance + by_newness DESC, chunk_id LIMIT 10) hit, LATERAL (
      (SELECT chunk_id, row_number() OVER (ORDER BY ts DESC, chunk_id DESC) AS nth FROM chunks WHERE tenant_id = tenant
         AND session_id = hit.session_id AND (ts, chunk_id) < (hit.ts, hit.chunk_id) ORDER BY ts DESC, chunk_id DESC LIMIT 2)
      UNION ALL (SELECT chunk_id, row_number() OVER (ORDER BY ts, chunk_id) FROM chunks WHERE tenant_id = tenant
         AND session_id = hit.session_id AND (ts, chunk_id) > (hit.ts, hit.chunk_id) ORDER BY ts, chunk_id LIMIT 2)) b
    GROUP BY 1),
  found AS (
    SELECT chunk_id, event_id, session_id, ts, token_est, gist, by_words, by_meaning, by_newness, by_importance, coalesce(by_neighbours, 0) AS by_neighbours
    FROM hits LEFT JOIN beside USING (chunk_id)
    UNION ALL SELECT chunk_id, event_id, session_id, ts, token_est, gist, 0, 0, 0, 0.1 * importance::float8, by_neighbours
    FROM beside JOIN chunks c USING (chunk_id) WHERE tenant_id = tenant AND tags @> tagged
      AND visible(channel, sensitivity, actor_id, request, agent) AND NOT EXISTS (SELECT FROM hits WHERE hits.chunk_id = c.chunk_id)),
  best AS MATERIALIZED (SELECT *, row_number() OVER (ORDER BY by_words + by_meaning + by_newness + by_importance + by_neighbours DESC, chunk_id) AS nth
    FROM found ORDER BY nth LIMIT CASE WHEN room > 0 THEN 1500 ELSE 0 END),
  ordered AS (SELECT *, row_number() OVER (PARTITION BY event_id ORDER BY nth) > 3
      OR nth IN (SELECT older.nth FROM best older JOIN best newer USING (session_id)
        WHERE (newer.ts, newer.chunk_id) > (older.ts, older.chunk_id) AND newer.event_id <> older.event_id
          AND bit_count((older.gist # newer.gist)::bit(64)) <= 12)
      OR EXISTS (SELECT FROM decisions WHERE tenant_id = tenant AND decision_id = best.event_id AND superseded_by IS NOT NULL) AS late FROM best),
  packed AS (SELECT *, sum(least(token_est, room / 4)) OVER (ORDER BY late, nth) - least(token_est, room / 4) AS before FROM ordered)
  SELECT 'evidence', row_number() OVER (ORDER BY late, nth), chunk_id::text, by_words, by_meaning, by_newness, by_importance, by_neighbours
  FROM packed WHERE before <= room
  UNION ALL (SELECT 'decisions', row_number() OVER (ORDER BY by_words + 2.5 * by_meaning + by_newness DESC, chunk_id DESC) AS nth, chunk_id::text,
      by_words, by_meaning, by_newness, by_importance, 0
    FROM hits WHERE chunk_id = ANY(decided) ORDER BY nth LIMIT 50);
END $$;
REVOKE ALL ON FUNCTION find FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find TO memory_daemon;
