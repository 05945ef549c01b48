-- Waits for the apply transaction that is under way.
select hw from tidegate.consumer_lane where consumer = $1 and lineage = $2 and lane = $3 for update
