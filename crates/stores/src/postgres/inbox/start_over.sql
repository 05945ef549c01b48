-- The head changed: the new one has all its attempts and is due at once.
update tidegate.inbox_parked set state = 'retrying', attempts = 0, next_at = $4, told = false
where consumer = $1 and lineage = $2 and key = $3
