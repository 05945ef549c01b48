select coalesce(sum(parked), 0)::bigint from tidegate.consumer_lane where consumer = $1
