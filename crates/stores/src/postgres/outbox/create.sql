-- $1 name, $2 lineage, $3 lanes, $4 archive. No row: another one was faster.
with made as (
  insert into tidegate.outbox_settings (name, lineage, lanes, archive) values ($1, $2, $3, $4)
  on conflict (name) do nothing
  returning id, lanes
),
slots as (
  insert into tidegate.lane (outbox, slot)
  select made.id, slot from made cross join generate_series(0, made.lanes - 1) as slot
)
select id from made
