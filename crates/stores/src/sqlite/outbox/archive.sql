-- ?1 outbox, ?2 now, ?3 [[lane, n, prior as hex, seq or zero for a void marker], …]
insert into tidegate_outbox_archive
  (outbox, lane, n, prior, settled_at,
   event_id, topic, key, version, content_type, headers, payload, occurred_at)
select ?1, j.value ->> 0, j.value ->> 1, unhex(j.value ->> 2), ?2,
       o.event_id, o.topic, o.key, o.version, o.content_type, o.headers, o.payload, o.occurred_at
from json_each(?3) j
left join tidegate_outbox o on o.seq = j.value ->> 3
order by j.key
