delete from tidegate.inbox_parked where consumer = $1 and lineage = $2 and key = $3 and events = 0
