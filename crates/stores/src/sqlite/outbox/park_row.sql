-- ?1 outbox, ?2 seq
select key, event_id from tidegate_outbox where seq = ?2 and outbox = ?1
