-- $1 consumer, $2 [[lineage, lane, owner, label, token, until, clean], ...]. A raised token waits for the holder's transaction, and shuts later ones
-- out.
with locked as materialized (
  select l.lineage, l.lane, value
  from json_array_elements($2::text::json) as held(value)
  join tidegate.consumer_lane as l
    on l.consumer = $1 and l.lineage = (value ->> 0)::uuid and l.lane = (value ->> 1)::int
  order by l.lineage, l.lane
  for update of l
)
update tidegate.consumer_lane as l
set owner = (value ->> 2)::uuid, label = value ->> 3, token = (value ->> 4)::bigint, lease_until = (value ->> 5)::bigint,
  clean = (value ->> 6)::boolean
from locked
where l.consumer = $1 and l.lineage = locked.lineage and l.lane = locked.lane
