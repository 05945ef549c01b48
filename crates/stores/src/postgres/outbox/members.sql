-- $1 outbox
select member, label, ttl, seen from tidegate.member where outbox = $1
