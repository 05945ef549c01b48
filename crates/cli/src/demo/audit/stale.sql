-- Entries under an earlier token than an entry before them in their lane.
select count(*) from (
  select token, max(token) over (partition by register order by n rows between unbounded preceding and 1 preceding)
    as newest
  from tidegate_entry)
where token < newest
