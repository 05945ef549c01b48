-- Payloads lie end to end in ?3; each event knows where its own begins. An empty one would come out as null.
insert into tidegate_inbox_parked_event
  (consumer, lineage, key, lane, n, event_id, topic, event_key, version, content_type, headers, occurred_at, payload)
select ?1, unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, unhex(value ->> 4), value ->> 5, value ->> 6,
  value ->> 7, value ->> 8, value ->> 9, value ->> 10, coalesce(substr(?3, value ->> 11, value ->> 12), x'')
from json_each(?2)
