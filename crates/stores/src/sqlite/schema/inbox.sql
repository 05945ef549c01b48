-- Consumers that apply to this database.
create table tidegate_consumer (
  id          integer primary key,
  name        text    not null unique
) strict;

-- Where a consumer stands in each lane, and who owns the lane. `clean`: the last owner drained before it left.
create table tidegate_consumer_lane (
  consumer    integer not null,
  lineage     blob    not null,
  lane        integer not null,
  owner       blob,
  label       text,
  token       integer not null default 0,
  lease_until integer not null default 0,
  boot        blob,
  hw          integer not null,
  chain       blob    not null,
  cursor_hi   integer not null,
  cursor_lo   integer not null,
  clean       integer not null,
  primary key (consumer, lineage, lane)
) strict, without rowid;

-- Live consumers, by heartbeat.
create table tidegate_consumer_member (
  consumer    integer not null,
  member      blob    not null,
  label       text    not null,
  seen        integer not null,
  ttl         integer not null,
  boot        blob    not null,
  primary key (consumer, member)
) strict, without rowid;

-- Keys whose head could not be applied.
create table tidegate_inbox_parked (
  consumer    integer not null,
  lineage     blob    not null,
  key         text    not null,
  lane        integer not null,
  state       text    not null,
  attempts    integer not null,
  next_at     integer not null,
  class       text    not null,
  fingerprint text    not null,
  message     text    not null,
  parked_at   integer not null,
  primary key (consumer, lineage, key)
) strict, without rowid;

-- Events that wait behind a parked key, in order of n.
create table tidegate_inbox_parked_event (
  consumer     integer not null,
  lineage      blob    not null,
  key          text    not null,
  n            integer not null,
  lane         integer not null,
  queued_at    integer not null,
  event_id     blob    not null,
  topic        text    not null,
  event_key    text,
  version      integer,
  content_type text    not null,
  headers      text,
  payload      blob    not null,
  occurred_at  integer not null,
  primary key (consumer, lineage, key, n)
) strict;

-- Attempts begun in careful mode and not yet ended.
create table tidegate_attempt (
  consumer    integer not null,
  lineage     blob    not null,
  lane        integer not null,
  n           integer not null,
  crashes     integer not null,
  primary key (consumer, lineage, lane)
) strict, without rowid;
