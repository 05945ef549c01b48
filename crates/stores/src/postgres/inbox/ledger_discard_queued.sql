update tidegate.consumer_lane set parked = parked - 1, discarded = discarded + 1
where consumer = $1 and lineage = $2 and lane = $3
