-- The key in whose queue the event waits, and whether it is the head.
select e.key, e.n = (
    select min(n) from tidegate.inbox_parked_event as first
    where first.consumer = e.consumer and first.lineage = e.lineage and first.key = e.key
  )
from tidegate.inbox_parked_event as e
where e.consumer = $1 and e.lineage = $2 and e.lane = $3 and e.n = $4
