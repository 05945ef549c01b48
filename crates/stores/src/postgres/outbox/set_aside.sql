-- $1 outbox; $2 lanes, $3 seqs, $4 parked keys
with gone as (
  delete from tidegate.outbox as o
  using unnest($2::smallint[], $3::bigint[], $4::text[]) as d (lane, seq, parked_key)
  where o.outbox = $1 and o.lane = d.lane and o.seq = d.seq
  returning d.parked_key, o.*
)
insert into tidegate.outbox_parked
  (outbox, parked_key, seq, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
select outbox, parked_key, seq, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at
from gone
