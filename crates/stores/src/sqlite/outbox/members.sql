-- ?1 outbox
select member, label, ttl, seen, boot from tidegate_member where outbox = ?1
