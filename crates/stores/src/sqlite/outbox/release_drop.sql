-- ?1 outbox, ?2 parked key
delete from tidegate_outbox_parked where outbox = ?1 and parked_key = ?2
