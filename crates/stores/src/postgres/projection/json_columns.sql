-- $1 the table, quoted
select a.attname::text from pg_catalog.pg_attribute a
where a.attrelid = $1::text::regclass and a.attnum > 0 and not a.attisdropped
  and a.atttypid in ('json'::regtype, 'jsonb'::regtype)
