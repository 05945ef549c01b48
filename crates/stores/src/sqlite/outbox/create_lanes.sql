-- ?1 outbox, ?2 lanes
with recursive slots (slot) as (select 0 union all select slot + 1 from slots where slot + 1 < ?2)
insert into tidegate_lane (outbox, slot) select ?1, slot from slots
