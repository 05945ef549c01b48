-- Outboxes in this database. `lanes` never changes; `archive` keeps settled rows.
create table tidegate_outbox_settings (
  id          integer primary key,
  name        text    not null unique,
  lineage     blob    not null unique,
  lanes       integer not null,
  archive     integer not null
) strict;

-- Rows waiting to be published. `seq` is never reused, and is commit order: SQLite has one writer.
create table tidegate_outbox (
  seq          integer primary key autoincrement,
  outbox       integer not null,
  lane         integer not null,
  event_id     blob    not null,
  topic        text    not null,
  key          text,
  version      integer,
  content_type text    not null,
  headers      text,
  payload      blob    not null,
  occurred_at  integer not null
) strict;

-- The only index. `seq`, being the rowid, is its last column by itself.
create index tidegate_outbox_lane on tidegate_outbox (outbox, lane);

-- One row per lane: who owns it, what is settled, what is planned. `plan` holds a little-endian 64-bit seq for each
-- number after `settled`; zero is a void marker. Every row of the lane up to `floor` was planned or set aside.
-- `lease_until` is on the clock of the boot in `boot`. `parked` counts keys set aside.
create table tidegate_lane (
  outbox      integer not null,
  slot        integer not null,
  owner       blob,
  label       text,
  token       integer not null default 0,
  lease_until integer not null default 0,
  boot        blob,
  settled     integer not null default 0,
  chain       blob    not null default (zeroblob(16)),
  plan        blob    not null default x'',
  floor       integer not null default 0,
  parked      integer not null default 0,
  primary key (outbox, slot)
) strict;

-- Live relays, by heartbeat.
create table tidegate_member (
  outbox      integer not null,
  member      blob    not null,
  label       text    not null,
  seen        integer not null,
  ttl         integer not null,
  boot        blob    not null,
  primary key (outbox, member)
) strict, without rowid;

-- Keys set aside, by `k:` and the key, or `e:` and the event id.
create table tidegate_outbox_parked_key (
  outbox      integer not null,
  key         text    not null,
  lane        integer not null,
  reason      text    not null,
  attempts    integer not null,
  parked_at   integer not null,
  primary key (outbox, key)
) strict, without rowid;

-- Rows of keys set aside, with the seq they had.
create table tidegate_outbox_parked (
  seq          integer primary key,
  outbox       integer not null,
  lane         integer not null,
  parked_key   text    not null,
  event_id     blob    not null,
  topic        text    not null,
  key          text,
  version      integer,
  content_type text    not null,
  headers      text,
  payload      blob    not null,
  occurred_at  integer not null
) strict;

create index tidegate_outbox_parked_by_key on tidegate_outbox_parked (outbox, parked_key);

-- Settled rows with their numbers, in order of settling. `prior` is the chain at `n - 1`; a void marker has no event.
create table tidegate_outbox_archive (
  id           integer primary key,
  outbox       integer not null,
  lane         integer not null,
  n            integer not null,
  prior        blob    not null,
  settled_at   integer not null,
  event_id     blob,
  topic        text,
  key          text,
  version      integer,
  content_type text,
  headers      text,
  payload      blob,
  occurred_at  integer,
  unique (outbox, lane, n)
) strict;
