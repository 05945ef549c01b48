select member, label, seen, ttl from tidegate.consumer_member where consumer = $1
