update tidegate_inbox_skipped as s set told = 1
from (select unhex(value ->> 0) as lineage, value ->> 1 as lane, value ->> 2 as n, value ->> 3 as failed_at
  from json_each(?2)) as taken
where s.consumer = ?1 and s.lineage = taken.lineage and s.lane = taken.lane and s.n = taken.n and s.skipped_at = taken.failed_at
