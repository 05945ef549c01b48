-- Entries that the stream lost and does not hold again under the same number.
select count(*) - (
  select count(*) from lost_entry l
  join tidegate_entry e on e.register = l.register and e.n = l.n and e.event_id is l.event_id)
from lost_entry
