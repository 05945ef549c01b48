select member, label, seen, ttl, boot from tidegate_consumer_member where consumer = ?1
