-- $1 consumer, $2 member, $3 [[lineage, lane, token], ...], $4 a mark that the transaction carries. Rows are locked in order: a take-over waits
-- here, and is waited for.
select l.lineage, l.lane, l.hw, l.chain, l.cursor_hi, l.cursor_lo, l.clean, l.parked, set_config('tidegate.apply', $4, true)
from json_array_elements($3::text::json) as asked(value)
join tidegate.consumer_lane as l
  on l.consumer = $1 and l.lineage = (value ->> 0)::uuid and l.lane = (value ->> 1)::int
where l.owner = $2 and l.token = (value ->> 2)::bigint
order by l.lineage, l.lane
for update of l
