-- ?1 outbox, ?2 lane, ?3 parked key: rows of the key that came after it was parked and have no number yet.
select o.seq from tidegate_outbox o
join tidegate_lane l on l.outbox = o.outbox and l.slot = o.lane
where o.outbox = ?1 and o.lane = ?2 and o.seq > l.floor
  and case when substr(?3, 1, 2) = 'k:' then o.key = substr(?3, 3)
           else o.key is null and o.event_id = unhex(substr(?3, 3), '-') end
order by o.seq
