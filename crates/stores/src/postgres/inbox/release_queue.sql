insert into tidegate.inbox_parked_event
  (consumer, lineage, key, lane, n, event_id, topic, event_key, version, content_type, headers, payload, occurred_at)
select consumer, lineage, key, lane, n, event_id, topic, event_key, version, content_type, headers, payload, occurred_at
from tidegate.inbox_skipped
where consumer = $1 and lineage = $2 and lane = $3 and n = $4
