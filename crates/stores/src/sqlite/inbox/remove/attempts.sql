delete from tidegate_inbox_attempt where consumer = ?1
