insert into tidegate.consumer_member (consumer, member, label, seen, ttl) values ($1, $2, $3, $4, $5)
on conflict (consumer, member) do update set label = excluded.label, seen = excluded.seen, ttl = excluded.ttl
