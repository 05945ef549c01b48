select n, event_id, topic, event_key, version, content_type, headers, occurred_at, payload
from tidegate.inbox_parked_event
where consumer = $1 and lineage = $2 and key = $3
order by n limit $4
