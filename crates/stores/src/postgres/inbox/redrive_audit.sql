-- Before the keys are changed: one record for each that will be. $4 lineage, $5 key, $6 fingerprint, null for any; a key that is asked for by
-- name is redriven from any state, others only when dead.
insert into tidegate.inbox_audit (consumer, at, action, reason, lineage, lane, n, event_id, fingerprint)
select p.consumer, $2, 'redrive', $3, p.lineage, p.lane, e.n, e.event_id, p.fingerprint
from tidegate.inbox_parked as p
join tidegate.inbox_parked_event as e
  on e.consumer = p.consumer and e.lineage = p.lineage and e.key = p.key and e.n = (
      select min(n) from tidegate.inbox_parked_event as first
      where first.consumer = p.consumer and first.lineage = p.lineage and first.key = p.key
    )
where p.consumer = $1 and ($4 is null or p.lineage = $4) and ($5 is null or p.key = $5)
  and ($6 is null or p.fingerprint = $6) and ($5 is not null or p.state = 'dead')
  and not (p.state = 'retrying' and p.attempts = 0 and p.next_at <= $2)
order by p.lineage, p.key
