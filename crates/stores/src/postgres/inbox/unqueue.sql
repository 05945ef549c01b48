delete from tidegate.inbox_parked_event where consumer = $1 and lineage = $2 and key = $3 and n <= $4
