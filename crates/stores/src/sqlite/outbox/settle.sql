-- ?1 outbox, ?2 [seq, …]
-- The plus keeps the index out, which would be read from one end to the other.
delete from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
returning seq, lane, event_id
