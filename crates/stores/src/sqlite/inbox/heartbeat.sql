insert into tidegate_consumer_member (consumer, member, label, seen, ttl, boot) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict do update
set label = excluded.label, seen = excluded.seen, ttl = excluded.ttl, boot = excluded.boot
