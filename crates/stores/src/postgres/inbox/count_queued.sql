update tidegate.inbox_parked as p
set events = p.events + queued.events
from (
  select (value ->> 0)::uuid as lineage, value ->> 1 as key, count(*) as events
  from json_array_elements($2::text::json) as j(value) group by 1, 2
) as queued
where p.consumer = $1 and p.lineage = queued.lineage and p.key = queued.key
