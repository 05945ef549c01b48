-- Events that reached the target: applied, or waiting behind a parked key.
select (select count(*) from applied) + (select count(*) from tidegate_inbox_parked_event)
