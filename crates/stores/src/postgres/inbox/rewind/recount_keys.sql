update tidegate.inbox_parked as parked
set events = (
  select count(*) from tidegate.inbox_parked_event as event
  where event.consumer = parked.consumer and event.lineage = parked.lineage and event.key = parked.key
)
where consumer = $1 and lineage = $2 and lane = $3
