-- $1 outbox; $2 lanes, then the columns of the events, one array each. `seq` is drawn in their order.
insert into tidegate.outbox
  (outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
select $1, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at
from unnest($2::smallint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::bytea[], $10::bigint[])
  with ordinality as e (lane, event_id, topic, key, version, content_type, headers, payload, occurred_at, nth)
order by nth
