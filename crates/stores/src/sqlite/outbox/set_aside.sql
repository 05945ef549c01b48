-- ?1 outbox, ?2 [[seq, parked key], …]
-- The plus keeps the lane index out, which would read every row of the outbox.
insert into tidegate_outbox_parked
  (seq, outbox, lane, parked_key,
   event_id, topic, key, version, content_type, headers, payload, occurred_at)
select o.seq, o.outbox, o.lane, j.value ->> 1,
       o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, o.occurred_at
from json_each(?2) j
cross join tidegate_outbox o on o.seq = j.value ->> 0
where +o.outbox = ?1
