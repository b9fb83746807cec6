-- The search is in search.sql, which is run at every start; this held an older one.
SELECT;
