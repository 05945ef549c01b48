-- Parked keys of the lanes $2, as [lineage, lane], that are tried again, earliest first.
select p.lineage, p.lane, p.key, p.attempts, p.next_at
from tidegate.inbox_parked as p
where p.consumer = $1 and p.state = 'retrying'
  and (p.lineage, p.lane) in (select (value ->> 0)::uuid, (value ->> 1)::int from json_array_elements($2::text::json) as j(value))
order by p.next_at, p.lineage, p.key collate "C" limit $3
