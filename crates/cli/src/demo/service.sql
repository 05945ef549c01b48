-- The service's own table: one row per record, written in the same transaction as its event.
create table flight (
  event_id     blob    primary key,
  line         integer not null,
  key          text    not null,
  body         text    not null,
  committed_at integer not null
) strict;

-- What the service rolled back, noted afterwards, for the auditor.
create table rolled_back (event_id blob primary key) strict;
