-- ?1 first id, ?2 last id, ?3 limit
select e.id, r.lineage, r.lane, e.n, e.chain, length(e.payload),
       e.event_id, e.topic, e.key, e.version, e.content_type, e.headers, e.payload, e.occurred_at
from tidegate_entry e
cross join tidegate_register r on r.id = e.register
where e.id between ?1 and ?2
order by e.id limit ?3
