-- ?1 outbox, ?2 [seq, …]
-- The plus keeps the lane index out, which would read every row of the outbox.
select seq, lane, event_id from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
