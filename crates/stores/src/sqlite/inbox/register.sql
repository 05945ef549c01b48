insert or ignore into tidegate_consumer_lane
  (consumer, lineage, lane, hw, start, chain, cursor_hi, cursor_lo, clean)
select ?1, unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 2, unhex(value ->> 3), value ->> 4, value ->> 5,
  value ->> 6
from json_each(?2)
