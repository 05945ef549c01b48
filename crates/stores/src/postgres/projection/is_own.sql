-- $1 the table, quoted; $2 the schema of Tidegate's tables. A row: it is one of them.
select from pg_catalog.pg_class c
join pg_catalog.pg_namespace s on s.oid = c.relnamespace
where c.oid = $1::text::regclass and s.nspname = $2
