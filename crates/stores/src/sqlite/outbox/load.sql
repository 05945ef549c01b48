-- ?1 outbox, ?2 [seq, …]
-- The plus keeps the index out, which would be read from one end to the other.
select seq, event_id, topic, key, version, content_type, headers, payload, occurred_at
from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
