delete from tidegate_consumer_member where consumer = ?1
