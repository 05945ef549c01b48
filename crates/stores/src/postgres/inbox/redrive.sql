update tidegate.inbox_parked set state = 'retrying', attempts = 0, next_at = $2, told = false
where consumer = $1 and ($3 is null or lineage = $3) and ($4 is null or key = $4)
  and ($5 is null or fingerprint = $5) and ($4 is not null or state = 'dead')
  and not (state = 'retrying' and attempts = 0 and next_at <= $2)
