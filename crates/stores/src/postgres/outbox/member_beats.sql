-- $1 outbox, $2 member, $3 label, $4 now, $5 ttl
with gone as (delete from tidegate.member where outbox = $1 and member <> $2 and seen + ttl < $4)
insert into tidegate.member (outbox, member, label, seen, ttl) values ($1, $2, $3, $4, $5)
on conflict (outbox, member) do update set label = excluded.label, seen = excluded.seen, ttl = excluded.ttl
