-- Parked keys of the lanes ?2, as [lineage, lane], that are tried again, earliest first.
select p.lineage, p.lane, p.key, p.attempts, p.next_at
from tidegate_inbox_parked as p
where p.consumer = ?1 and p.state = 'retrying'
  and (hex(p.lineage), p.lane) in (select upper(value ->> 0), value ->> 1 from json_each(?2))
order by p.next_at limit ?3
