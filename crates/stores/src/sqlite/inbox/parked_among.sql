-- Which of the keys ?2, as [lineage, key], are parked.
select p.lineage, p.key, p.events
from json_each(?2) as asked
join tidegate_inbox_parked as p
  on p.consumer = ?1 and p.lineage = unhex(asked.value ->> 0) and p.key = asked.value ->> 1
