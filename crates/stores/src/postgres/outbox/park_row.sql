-- $1 outbox, $2 slot, $3 seq
select key, event_id from tidegate.outbox where outbox = $1 and lane = $2 and seq = $3
