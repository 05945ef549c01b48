delete from tidegate.consumer_member where consumer = $1 and member <> all($2)
