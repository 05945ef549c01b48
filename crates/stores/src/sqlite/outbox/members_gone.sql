-- ?1 outbox, ?2 boot, ?3 now: heartbeats of another boot, or too old.
delete from tidegate_member where outbox = ?1 and (boot <> ?2 or seen + ttl < ?3)
