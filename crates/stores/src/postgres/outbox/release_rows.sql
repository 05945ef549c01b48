-- $1 outbox, $2 parked key: back in their order, under fresh numbers of the sequence.
with gone as (
  delete from tidegate.outbox_parked where outbox = $1 and parked_key = $2 returning *
)
insert into tidegate.outbox
  (outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
select outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at
from gone
order by seq
