update tidegate.inbox_parked set events = events - $4, attempts = 0
where consumer = $1 and lineage = $2 and key = $3 returning events
