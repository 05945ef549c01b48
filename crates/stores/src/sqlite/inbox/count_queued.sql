update tidegate_inbox_parked as p
set events = p.events + queued.events
from (
  select unhex(value ->> 0) as lineage, value ->> 1 as key, count(*) as events
  from json_each(?2) group by value ->> 0, value ->> 1
) as queued
where p.consumer = ?1 and p.lineage = queued.lineage and p.key = queued.key
