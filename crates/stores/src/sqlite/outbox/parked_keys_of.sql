-- ?1 outbox, ?2 [slot, …]
select key from tidegate_outbox_parked_key
where outbox = ?1 and lane in (select value from json_each(?2))
