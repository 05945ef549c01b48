-- ?1 stream, ?2 [[lineage as hex, lane], …]
select j.key, r.id, r.n, r.token, r.chain
from json_each(?2) j
cross join tidegate_register r
  on r.stream = ?1 and r.lineage = unhex(j.value ->> 0) and r.lane = j.value ->> 1
