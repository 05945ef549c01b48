-- Entries that the fault took away, noted in the transaction that did it.
create table lost_entry (
  register integer not null,
  n        integer not null,
  event_id blob
) strict;
