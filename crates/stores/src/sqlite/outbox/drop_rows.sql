-- ?1 outbox, ?2 [seq, …]
delete from tidegate_outbox
where seq in (select value from json_each(?2)) and outbox = ?1
