-- $1 outbox, $2 before, $3 limit: from the oldest on, up to the first row that stays, so that what is kept of a lane has
-- no holes.
with look as (
  select id, bool_and(settled_at < $2) over (order by id) as old
  from (select id, settled_at from tidegate.outbox_archive where outbox = $1 order by id limit $3) as first
)
delete from tidegate.outbox_archive as a using look
where a.outbox = $1 and a.id = look.id and look.old
