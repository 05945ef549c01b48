delete from tidegate.consumer_member where consumer = $1
