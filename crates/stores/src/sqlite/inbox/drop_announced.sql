-- Forgets what is announced in the lanes ?2, as [lineage, lane, beyond this number].
delete from tidegate_inbox_attempt
where consumer = ?1 and (lineage, lane, n) in (
  select a.lineage, a.lane, a.n
  from json_each(?2) as asked
  cross join tidegate_inbox_attempt as a
    on a.consumer = ?1 and a.lineage = unhex(asked.value ->> 0) and a.lane = asked.value ->> 1
    and a.n > asked.value ->> 2
)
