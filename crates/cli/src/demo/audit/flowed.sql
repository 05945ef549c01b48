-- Events of other keys applied while the first parked key was parked.
select count(*)
from (select key, applied as first from parked_history where what = 'parked' order by id limit 1) parked
join applied on applied.id > parked.first and 'k:' || applied.key <> parked.key
  and applied.id <= coalesce(
    (select max(h.applied) from parked_history h where h.what = 'redriven' and h.key = parked.key),
    (select max(id) from applied))
