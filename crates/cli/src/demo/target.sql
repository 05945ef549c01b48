-- The projection: one row per key. `events` and `checksum` change at each application, so a doubled, lost or
-- reordered event leaves a trace in it.
create table board (
  key      text    primary key,
  events   integer not null,
  last     integer not null,
  checksum integer not null
) strict;

-- One row per application, for the auditor.
create table applied (
  id         integer primary key,
  event_id   blob    not null,
  key        text    not null,
  line       integer not null,
  applied_at integer not null
) strict;

create table demo (seed integer not null) strict;
