-- Streams in this database. `last` is the position of the newest entry, kept also when entries are trimmed.
create table tidegate_stream (
  id          integer primary key,
  name        text    not null unique,
  incarnation blob    not null,
  last        integer not null
) strict;

-- What the stream knows of each lane of each outbox. An entry is accepted only as `n + 1`.
create table tidegate_register (
  id      integer primary key,
  stream  integer not null,
  lineage blob    not null,
  lane    integer not null,
  n       integer not null default 0,
  token   integer not null default 0,
  chain   blob    not null default (zeroblob(16)),
  refused integer not null default 0,
  unique (stream, lineage, lane)
) strict;

-- The log, read by rowid: `id` is the stream's id times 2^40, plus the position. A void marker has no event.
create table tidegate_entry (
  id           integer primary key,
  register     integer not null,
  n            integer not null,
  token        integer not null,
  chain        blob    not null,
  appended_at  integer not null,
  event_id     blob,
  topic        text,
  key          text,
  version      integer,
  content_type text,
  headers      text,
  payload      blob,
  occurred_at  integer
) strict;

-- Ranges that no archive could bring back.
create table tidegate_stream_lost (
  stream      integer not null,
  lineage     blob    not null,
  lane        integer not null,
  first       integer not null,
  last        integer not null,
  chain       blob    not null,
  declared_at integer not null,
  primary key (stream, lineage, lane, first)
) strict, without rowid;

-- Readers that need everything after `below`.
create table tidegate_stream_hold (
  stream      integer not null,
  reader      text    not null,
  below       integer not null,
  renewed_at  integer not null,
  primary key (stream, reader)
) strict, without rowid;
