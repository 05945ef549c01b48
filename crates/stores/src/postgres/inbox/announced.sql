-- What is announced beyond the position of the lanes $2, as [lineage, lane].
select a.lineage, a.lane, a.n, a.upto, a.token, a.alone
from json_array_elements($2::text::json) as asked(value)
join tidegate.consumer_lane as l
  on l.consumer = $1 and l.lineage = (value ->> 0)::uuid and l.lane = (value ->> 1)::int
join tidegate.inbox_attempt as a
  on a.consumer = $1 and a.lineage = l.lineage and a.lane = l.lane and a.n > l.hw
order by a.lineage, a.lane, a.n
