delete from tidegate.inbox_attempt where consumer = $1 and lineage = $2 and lane = $3 and n = $4
