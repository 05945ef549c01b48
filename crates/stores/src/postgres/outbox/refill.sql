-- $1 outbox, $2 lane, $3 first number, $4 limit
select n, prior, event_id, topic, key, version, content_type, headers, occurred_at, payload
from tidegate.outbox_archive
where outbox = $1 and lane = $2 and n >= $3
order by n limit $4
