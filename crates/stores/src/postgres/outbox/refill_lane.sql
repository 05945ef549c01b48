-- $1 outbox, $2 slot, $3 member, $4 token
select settled, chain from tidegate.lane where outbox = $1 and slot = $2 and owner = $3 and token = $4
