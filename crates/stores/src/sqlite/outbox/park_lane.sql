-- ?1 outbox, ?2 slot, ?3 token, ?4 plan
update tidegate_lane
set token = ?3, plan = ?4,
    parked = (select count(*) from tidegate_outbox_parked_key k where k.outbox = ?1 and k.lane = ?2)
where outbox = ?1 and slot = ?2
