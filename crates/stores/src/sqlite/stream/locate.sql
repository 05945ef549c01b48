-- ?1 first id, ?2 last id
select e.id, r.lineage, r.lane, e.n, e.chain, e.appended_at
from tidegate_entry e
cross join tidegate_register r on r.id = e.register
where e.id between ?1 and ?2
order by e.id
