-- ?1 outbox, ?2 [seq, …]
-- The plus keeps the lane index out, which would read every row of the outbox.
select seq, event_id, topic, key, version, content_type, headers, payload, occurred_at
from tidegate_outbox
where seq in (select value from json_each(?2)) and +outbox = ?1
