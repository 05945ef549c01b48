update tidegate.consumer_lane set skipped = skipped - 1, parked = parked + 1
where consumer = $1 and lineage = $2 and lane = $3
