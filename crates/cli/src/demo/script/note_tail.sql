-- ?1 how many of the newest entries
insert into lost_entry (register, n, event_id)
select register, n, event_id from tidegate_entry order by id desc limit ?1
