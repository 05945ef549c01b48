insert into tidegate.sweep as s (name, version, position, saved_at)
values ($1, 1, $2, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
on conflict (name) do update
set version = s.version + 1, position = excluded.position, saved_at = excluded.saved_at
returning version
