-- ?1 outbox, ?2 lane, ?3 floor, ?4 key, ?5 event id: rows of the key that have no number yet.
select seq from tidegate_outbox
where outbox = ?1 and lane = ?2 and seq > ?3
  and key is ?4 and (key is not null or event_id = ?5)
order by seq
