delete from tidegate.inbox_attempt where consumer = $1
