-- ?1 outbox, ?2 [seq, …]
-- The plus keeps the lane index out, which would read every row of the outbox.
delete from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
returning seq, lane, event_id
