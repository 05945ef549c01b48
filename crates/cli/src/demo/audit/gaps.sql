-- Lanes whose numbers are not 1, 2, 3, ... up to their last.
select count(*) from (
  select register from tidegate_entry group by register having count(*) <> max(n) or min(n) <> 1)
