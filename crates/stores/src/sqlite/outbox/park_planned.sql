-- ?1 outbox, ?2 [seq, …], ?3 key, ?4 event id: those of these planned rows that are of the key.
-- The plus keeps the index out, which would be read from one end to the other.
select seq from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
  and key is ?3 and (key is not null or event_id = ?4)
