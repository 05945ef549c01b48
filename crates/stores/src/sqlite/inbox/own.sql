update tidegate_consumer_lane as l
set owner = unhex(held.owner), label = held.label, token = held.token, lease_until = held.lease_until, boot = ?3,
  clean = held.clean
from (
  select unhex(value ->> 0) as lineage, value ->> 1 as lane, value ->> 2 as owner, value ->> 3 as label,
    value ->> 4 as token, value ->> 5 as lease_until, value ->> 6 as clean
  from json_each(?2)
) as held
where l.consumer = ?1 and l.lineage = held.lineage and l.lane = held.lane
