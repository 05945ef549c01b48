-- ?1 outbox, ?2 key, ?3 lane, ?4 reason, ?5 now
insert into tidegate_outbox_parked_key (outbox, key, lane, reason, attempts, parked_at)
values (?1, ?2, ?3, ?4, 1, ?5)
on conflict (outbox, key) do update set reason = excluded.reason, attempts = attempts + 1
