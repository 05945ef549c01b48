-- The ledger begins anew: what waits or was skipped at or below the position stays counted, the rest is in `start`.
update tidegate.consumer_lane
set hw = $4, chain = $5, cursor_hi = 0, cursor_lo = 0, clean = true,
    owner = null, lease_until = 0, token = token + 1,
    parked = kept.parked, skipped = kept.skipped, start = $4 - kept.parked - kept.skipped,
    applied = 0, voids = 0, discarded = 0
from (
  select
    (select count(*) from tidegate.inbox_parked_event where consumer = $1 and lineage = $2 and lane = $3) as parked,
    (select count(*) from tidegate.inbox_skipped where consumer = $1 and lineage = $2 and lane = $3) as skipped
) as kept
where consumer = $1 and lineage = $2 and lane = $3
