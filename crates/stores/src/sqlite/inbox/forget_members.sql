delete from tidegate_consumer_member
where consumer = ?1 and lower(hex(member)) not in (select value from json_each(?2))
