-- Which of the keys $2, as [lineage, key], are parked.
select p.lineage, p.key, p.events
from json_array_elements($2::text::json) as asked(value)
join tidegate.inbox_parked as p on p.consumer = $1 and p.lineage = (value ->> 0)::uuid and p.key = value ->> 1
