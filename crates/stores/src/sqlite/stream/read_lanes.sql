-- ?1 first id, ?2 last id, ?3 limit, ?4 stream, ?5 [[lineage as hex, lane], …]
select e.id, r.lineage, r.lane, e.n, e.chain, length(e.payload),
       e.event_id, e.topic, e.key, e.version, e.content_type, e.headers, e.payload, e.occurred_at
from tidegate_entry e
cross join tidegate_register r on r.id = e.register
where e.id between ?1 and ?2
  and e.register in (
    select m.id from json_each(?5) j
    cross join tidegate_register m
      on m.stream = ?4 and m.lineage = unhex(j.value ->> 0) and m.lane = j.value ->> 1)
order by e.id limit ?3
