-- ?1 outbox, ?2 member
delete from tidegate_member where outbox = ?1 and member = ?2
