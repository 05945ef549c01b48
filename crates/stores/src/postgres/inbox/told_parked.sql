-- Only where the event is still the head and has not died anew: another head or another death is another letter.
update tidegate.inbox_parked as p set told = true
from json_array_elements($2::text::json) as taken(value)
join tidegate.inbox_parked_event as e
  on e.consumer = $1 and e.lineage = (value ->> 0)::uuid and e.lane = (value ->> 1)::int and e.n = (value ->> 2)::bigint
where p.consumer = $1 and p.lineage = e.lineage and p.key = e.key and p.state = 'dead' and p.failed_at = (value ->> 3)::bigint
  and e.n = (
    select min(n) from tidegate.inbox_parked_event as first
    where first.consumer = $1 and first.lineage = e.lineage and first.key = e.key
  )
