-- $1 outbox, $2 slots
select key from tidegate.outbox_parked_key where outbox = $1 and lane = any ($2::smallint[])
