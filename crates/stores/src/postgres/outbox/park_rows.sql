-- $1 outbox, $2 slot, $3 key, $4 event id: visible rows of the key.
select seq from tidegate.outbox
where outbox = $1 and lane = $2 and key is not distinct from $3 and (key is not null or event_id = $4)
order by seq
