-- $1 outbox, $2 slot
select plan from tidegate.lane where outbox = $1 and slot = $2 for no key update
