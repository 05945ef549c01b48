-- $1 outbox, $2 parked key
delete from tidegate.outbox_parked_key where outbox = $1 and key = $2
