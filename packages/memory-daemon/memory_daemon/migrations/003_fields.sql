-- What an event may also say. `ts` is when it happened, as its sender says; retention goes by
-- `recorded_at`. `actor_id` is the agent that recorded it; `said_by` is who of several people said it,
-- or which tool. `task` is what an update says of its task, `to_agent` whom a handoff is for.
ALTER TABLE events ADD COLUMN recorded_at timestamptz, ADD COLUMN said_by text NOT NULL DEFAULT '',
  ADD COLUMN task jsonb, ADD COLUMN to_agent text;
UPDATE events SET recorded_at = ts;
ALTER TABLE events ALTER COLUMN recorded_at SET DEFAULT clock_timestamp(), ALTER COLUMN recorded_at SET NOT NULL;
-- Of older updates, only the last of each task is known.
UPDATE events SET task = jsonb_build_object('task_id', task_id, 'status', status, 'title', title)
  FROM tasks WHERE (tasks.tenant_id, tasks.event_id) = (events.tenant_id, events.event_id);
CREATE INDEX ON events (recorded_at);
CREATE INDEX ON events (tenant_id, to_agent, ts) WHERE to_agent IS NOT NULL;
CREATE INDEX ON events (tenant_id, (task->>'task_id'), ts) WHERE task IS NOT NULL;
ALTER TABLE chunks ADD COLUMN said_by text NOT NULL DEFAULT '';

-- Bytes that are no text, kept as they came.
ALTER TABLE artifacts DROP CONSTRAINT artifacts_kind_check,
  ADD CHECK (kind IN ('tool_output', 'blob', 'binary'));
