-- The role that serves: it sees one tenant at a time, and deletes nothing. Run at every start,
-- because roles are not part of a dump.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'memory_daemon') THEN
    CREATE ROLE memory_daemon NOLOGIN;
  END IF;
  IF (SELECT rolsuper OR rolbypassrls OR rolname = current_user FROM pg_roles WHERE rolname = 'memory_daemon') THEN
    RAISE EXCEPTION USING ERRCODE = 'MD001';
  END IF;
  IF current_setting('is_superuser') = 'off' AND NOT EXISTS (SELECT FROM pg_auth_members
      WHERE roleid = 'memory_daemon'::regrole AND member = current_user::regrole) THEN
    GRANT memory_daemon TO current_user;
  END IF;
  SET LOCAL ROLE memory_daemon;
  RESET ROLE;
END $$;
