-- What happened, and what is kept of it for retrieval. Everything depends on `events`: forgetting
-- an event removes its chunks, artifact, decision and task.

-- English words by their stems. Chinese and Japanese have no spaces between words, and Korean glues
-- particles to them, so runs of those letters count as pairs of letters too.
CREATE FUNCTION memory_tsv(body text) RETURNS tsvector IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT to_tsvector('english', regexp_replace(body, '([A-Za-z0-9_])([가-힣ぁ-ヿ一-鿿])', '\1 \2', 'g'))
    || to_tsvector('simple', coalesce((SELECT string_agg(substr(run[1], i, 2), ' ')
       FROM regexp_matches(body, '([가-힣ぁ-ヿ一-鿿]+)', 'g') run,
            generate_series(1, greatest(length(run[1]) - 1, 1)) i), '')) $$;

-- The whole policy: may a request on channel `request` by agent `agent` see such a row?
-- Nobody sees a secret.
CREATE FUNCTION visible(channel text, sensitivity text, actor text, request text, agent text)
RETURNS boolean IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
  SELECT CASE request
    WHEN 'private' THEN (channel <> 'private' OR actor = agent) AND sensitivity IN ('none', 'low', 'high')
    WHEN 'agent' THEN channel IN ('agent', 'team', 'public') AND sensitivity IN ('none', 'low')
    WHEN 'team' THEN channel IN ('team', 'public') AND sensitivity IN ('none', 'low')
    WHEN 'public' THEN channel = 'public' AND sensitivity = 'none'
    ELSE false END $$;

CREATE DOMAIN channel AS text CHECK (VALUE IN ('public', 'team', 'agent', 'private'));
CREATE DOMAIN sensitivity AS text CHECK (VALUE IN ('none', 'low', 'high', 'secret'));
CREATE DOMAIN kind AS text
  CHECK (VALUE IN ('message', 'tool_call', 'tool_result', 'decision', 'task_update', 'artifact'));

CREATE TABLE events (
  tenant_id text NOT NULL CHECK (tenant_id <> ''), event_id text COLLATE "C" NOT NULL,
  ts timestamptz NOT NULL DEFAULT clock_timestamp(), session_id text NOT NULL,
  channel channel NOT NULL, actor_type text NOT NULL CHECK (actor_type IN ('human', 'agent', 'tool')),
  actor_id text NOT NULL, kind kind NOT NULL, sensitivity sensitivity NOT NULL DEFAULT 'none',
  tags text[] NOT NULL DEFAULT '{}', content jsonb NOT NULL, refs text[] NOT NULL DEFAULT '{}',
  request_hash bytea NOT NULL, -- tells an event sent again from another with the same id
  PRIMARY KEY (tenant_id, event_id)); -- so that no tenant can take another's ids
CREATE INDEX ON events (tenant_id, ts);
CREATE INDEX ON events (tenant_id, session_id, ts);
CREATE INDEX ON events USING gin (tags);
CREATE INDEX ON events USING gin (content jsonb_path_ops);

CREATE TABLE chunks (
  tenant_id text NOT NULL, chunk_id text COLLATE "C" NOT NULL, event_id text COLLATE "C" NOT NULL,
  ts timestamptz NOT NULL, session_id text NOT NULL, channel channel NOT NULL, actor_type text NOT NULL,
  actor_id text NOT NULL, kind kind NOT NULL, sensitivity sensitivity NOT NULL CHECK (sensitivity <> 'secret'),
  refs text[] NOT NULL DEFAULT '{}', token_est int NOT NULL, importance real NOT NULL, text text NOT NULL,
  tsv tsvector GENERATED ALWAYS AS (memory_tsv(text)) STORED,
  PRIMARY KEY (tenant_id, chunk_id),
  FOREIGN KEY (tenant_id, event_id) REFERENCES events ON DELETE CASCADE);
-- 10,000 words with their frequencies, not 1,000: a word that is not listed counts as rare.
ALTER TABLE chunks ALTER COLUMN tsv SET STATISTICS 1000;
CREATE INDEX chunks_words ON chunks USING gin (tsv);
CREATE INDEX ON chunks (tenant_id, ts DESC);
CREATE INDEX ON chunks (tenant_id, kind);
CREATE INDEX ON chunks (tenant_id, event_id);

CREATE TABLE decisions (
  tenant_id text NOT NULL, decision_id text COLLATE "C" NOT NULL, -- its event's id
  ts timestamptz NOT NULL, status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'superseded')),
  superseded_by text COLLATE "C", scope text NOT NULL CHECK (scope IN ('project', 'user', 'global')),
  channel channel NOT NULL, sensitivity sensitivity NOT NULL, actor_id text NOT NULL, decision text NOT NULL,
  rationale text[] NOT NULL DEFAULT '{}', constraints text[] NOT NULL DEFAULT '{}',
  alternatives text[] NOT NULL DEFAULT '{}', consequences text[] NOT NULL DEFAULT '{}',
  refs text[] NOT NULL DEFAULT '{}', model text, vector bytea, -- float16, of length 1
  tsv tsvector GENERATED ALWAYS AS (memory_tsv(decision)) STORED,
  PRIMARY KEY (tenant_id, decision_id),
  FOREIGN KEY (tenant_id, decision_id) REFERENCES events ON DELETE CASCADE);
CREATE INDEX ON decisions (tenant_id, status, ts DESC);
CREATE INDEX ON decisions USING gin (refs);

CREATE TABLE tasks (
  tenant_id text NOT NULL, task_id text COLLATE "C" NOT NULL, event_id text COLLATE "C" NOT NULL, -- the latest
  ts timestamptz NOT NULL, status text NOT NULL CHECK (status IN ('open', 'doing', 'done')),
  title text NOT NULL, details text NOT NULL, refs text[] NOT NULL DEFAULT '{}',
  channel channel NOT NULL, sensitivity sensitivity NOT NULL, actor_id text NOT NULL,
  PRIMARY KEY (tenant_id, task_id),
  FOREIGN KEY (tenant_id, event_id) REFERENCES events ON DELETE CASCADE);
CREATE INDEX ON tasks (tenant_id, event_id);

CREATE TABLE artifacts (
  tenant_id text NOT NULL, artifact_id text COLLATE "C" NOT NULL, -- its event's id
  ts timestamptz NOT NULL, kind text NOT NULL CHECK (kind IN ('tool_output', 'blob')), bytes bytea NOT NULL,
  meta jsonb NOT NULL DEFAULT '{}', refs text[] NOT NULL DEFAULT '{}',
  channel channel NOT NULL, sensitivity sensitivity NOT NULL, actor_id text NOT NULL,
  PRIMARY KEY (tenant_id, artifact_id),
  FOREIGN KEY (tenant_id, artifact_id) REFERENCES events ON DELETE CASCADE);

-- The second wall between tenants. Not FORCE: the owner, who searches on behalf of the serving role
-- (see the next file), could then not use the index or the statistics.
DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY ARRAY['events', 'chunks', 'decisions', 'tasks', 'artifacts'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY one_tenant ON %I USING (tenant_id = current_setting(''app.tenant'', true))
                    WITH CHECK (tenant_id = current_setting(''app.tenant'', true))', name);
    EXECUTE format('GRANT SELECT, INSERT ON %I TO memory_daemon', name);
  END LOOP; END $$;
GRANT UPDATE (status, superseded_by) ON decisions TO memory_daemon;
GRANT UPDATE ON tasks TO memory_daemon;
GRANT USAGE ON SCHEMA memory TO memory_daemon;
