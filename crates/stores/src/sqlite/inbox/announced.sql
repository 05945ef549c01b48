-- What is announced beyond the position of the lanes ?2, as [lineage, lane].
select a.lineage, a.lane, a.n, a.upto, a.token, a.alone
from json_each(?2) as asked
cross join tidegate_consumer_lane as l
  on l.consumer = ?1 and l.lineage = unhex(asked.value ->> 0) and l.lane = asked.value ->> 1
cross join tidegate_inbox_attempt as a
  on a.consumer = ?1 and a.lineage = l.lineage and a.lane = l.lane and a.n > l.hw
