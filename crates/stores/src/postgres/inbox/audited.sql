select exists (
  select 1 from tidegate.inbox_audit
  where consumer = $1 and lineage = $2 and lane = $3 and n = $4 and action = $5
)
