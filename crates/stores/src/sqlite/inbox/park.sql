insert into tidegate_inbox_parked
  (consumer, lineage, key, lane, state, next_at, class, fingerprint, message, parked_at, failed_at)
select ?1, unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
  value ->> 7, value ->> 8, value ->> 8
from json_each(?2)
