-- Events that waited behind a parked key when it was redriven, and were applied afterwards.
select count(distinct waits.event_id)
from parked_history waits
join parked_history redriven on redriven.what = 'redriven' and redriven.key = waits.key and redriven.id > waits.id
join applied on applied.event_id = waits.event_id and applied.id > redriven.applied
where waits.what = 'waits'
