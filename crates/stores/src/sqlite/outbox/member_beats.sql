-- ?1 outbox, ?2 member, ?3 label, ?4 now, ?5 ttl, ?6 boot
insert into tidegate_member (outbox, member, label, seen, ttl, boot) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (outbox, member) do update
set label = excluded.label, seen = excluded.seen, ttl = excluded.ttl, boot = excluded.boot
