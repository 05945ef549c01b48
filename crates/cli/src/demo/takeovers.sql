-- Tokens seen in a lane's entries, beyond its first: each is another tenure.
select sum(tenures - 1) from (select count(distinct token) as tenures from tidegate_entry group by register)
