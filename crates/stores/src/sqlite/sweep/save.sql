insert into tidegate_sweep (name, version, position, saved_at)
values (?1, 1, ?2, cast(unixepoch('subsec') * 1000000 as integer))
on conflict (name) do update
set version = version + 1, position = excluded.position, saved_at = excluded.saved_at
returning version
