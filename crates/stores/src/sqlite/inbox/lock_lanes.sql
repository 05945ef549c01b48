-- The lane rows among ?3, as [lineage, lane, token], that member ?2 still holds.
select l.lineage, l.lane, l.hw, l.chain, l.cursor_hi, l.cursor_lo, l.clean, l.parked
from json_each(?3) as mine
join tidegate_consumer_lane as l
  on l.consumer = ?1 and l.lineage = unhex(mine.value ->> 0) and l.lane = mine.value ->> 1
where l.owner = ?2 and l.token = mine.value ->> 2
