-- ?1 outbox, ?2 [[slot, floor], …], ?3 rows for each lane: the cost does not depend on the backlog.
select j.key, o.seq, length(o.payload),
       o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, o.occurred_at
from json_each(?2) j
cross join tidegate_outbox o on o.seq in (
  select i.seq from tidegate_outbox i
  where i.outbox = ?1 and i.lane = j.value ->> 0 and i.seq > j.value ->> 1
  order by i.seq limit ?3)
