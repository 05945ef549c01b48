update tidegate.inbox_parked
set state = $4, attempts = $5, next_at = $6, class = $7, fingerprint = $8, message = $9, failed_at = $10
where consumer = $1 and lineage = $2 and key = $3
