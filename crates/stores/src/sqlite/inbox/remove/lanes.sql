delete from tidegate_consumer_lane where consumer = ?1
