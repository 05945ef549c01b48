-- ?1 outbox, ?2 [seq, …]
select seq, lane, event_id from tidegate_outbox
where seq in (select value from json_each(?2)) and outbox = ?1
