-- Only where the event is still the head and has not died anew: another head or another death is another letter.
update tidegate_inbox_parked as p set told = 1
from (select unhex(value ->> 0) as lineage, value ->> 1 as lane, value ->> 2 as n, value ->> 3 as failed_at
  from json_each(?2)) as taken
join tidegate_inbox_parked_event as e
  on e.consumer = ?1 and e.lineage = taken.lineage and e.lane = taken.lane and e.n = taken.n
where p.consumer = ?1 and p.lineage = e.lineage and p.key = e.key and p.state = 'dead' and p.failed_at = taken.failed_at
  and e.n = (
    select min(n) from tidegate_inbox_parked_event as first
    where first.consumer = ?1 and first.lineage = e.lineage and first.key = e.key
  )
