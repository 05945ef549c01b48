-- $1 outbox, $2 slot
update tidegate.lane
set parked = (select count(*) from tidegate.outbox_parked_key k where k.outbox = $1 and k.lane = $2)
where outbox = $1 and slot = $2
