-- The lost numbers were never taken in: a person gave them up.
update tidegate.consumer_lane
set hw = $4, chain = $5, discarded = discarded + $4 - hw, cursor_hi = 0, cursor_lo = 0, clean = true,
    owner = null, lease_until = 0, token = token + 1
where consumer = $1 and lineage = $2 and lane = $3
