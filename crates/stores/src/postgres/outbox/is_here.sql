-- $1 outbox, $2 lineage as text
select 1 from tidegate.outbox_settings where id = $1 and lineage = $2::uuid
