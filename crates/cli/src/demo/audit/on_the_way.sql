-- Ids that the service's database holds for the stream: rows that wait, are set aside, or were settled.
select event_id from tidegate_outbox
union select event_id from tidegate_outbox_parked
union select event_id from tidegate_outbox_archive where event_id is not null
