-- $1 outbox, $2 member, $3 now
delete from tidegate.member where outbox = $1 and (member = $2 or seen + ttl < $3)
