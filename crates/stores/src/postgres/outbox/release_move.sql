-- $1 outbox, $2 slot, $3 seqs: behind the released rows.
with gone as (
  delete from tidegate.outbox where outbox = $1 and lane = $2 and seq = any ($3::bigint[]) returning *
)
insert into tidegate.outbox
  (outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
select outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at
from gone
order by seq
