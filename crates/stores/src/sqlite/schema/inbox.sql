-- Consumers that apply to this database.
create table tidegate_consumer (
  id          integer primary key,
  name        text    not null unique
) strict;

-- Where a consumer stands in each lane, and who owns the lane. `clean`: the last owner drained before it left.
-- `lease_until` is on the clock of the boot in `boot`. In every snapshot
-- hw = start + applied + voids + skipped + parked + discarded, and `parked` counts the lane's parked events.
create table tidegate_consumer_lane (
  consumer    integer not null,
  lineage     blob    not null,
  lane        integer not null,
  owner       blob,
  label       text    not null default '',
  token       integer not null default 0,
  lease_until integer not null default 0,
  boot        blob    not null default x'',
  hw          integer not null,
  chain       blob    not null,
  cursor_hi   integer not null,
  cursor_lo   integer not null,
  clean       integer not null,
  start       integer not null,
  applied     integer not null default 0,
  voids       integer not null default 0,
  skipped     integer not null default 0,
  parked      integer not null default 0,
  discarded   integer not null default 0,
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

-- Keys whose head could not be applied: `retrying` at `next_at`, or `dead` until a person acts. `events` counts those
-- that wait, the head included. `told`: a user's sink has taken the dead head.
create table tidegate_inbox_parked (
  consumer    integer not null,
  lineage     blob    not null,
  key         text    not null,
  lane        integer not null,
  state       text    not null,
  events      integer not null default 0,
  attempts    integer not null default 0,
  next_at     integer not null,
  class       text    not null,
  fingerprint text    not null,
  message     text    not null,
  parked_at   integer not null,
  failed_at   integer not null,
  told        integer not null default 0,
  primary key (consumer, lineage, key)
) strict, without rowid;

create index tidegate_inbox_parked_due on tidegate_inbox_parked (consumer, next_at) where state = 'retrying';
create index tidegate_inbox_parked_untold on tidegate_inbox_parked (consumer, parked_at)
where state = 'dead' and told = 0;

-- Events that wait behind a parked key, in order of n, as they came.
create table tidegate_inbox_parked_event (
  consumer     integer not null,
  lineage      blob    not null,
  key          text    not null,
  n            integer not null,
  lane         integer not null,
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

create index tidegate_inbox_parked_event_position on tidegate_inbox_parked_event (consumer, lineage, lane, n);

-- Events that the policy `skip` dead-lettered: they do not hold back their key.
create table tidegate_inbox_skipped (
  consumer     integer not null,
  lineage      blob    not null,
  lane         integer not null,
  n            integer not null,
  key          text    not null,
  class        text    not null,
  fingerprint  text    not null,
  message      text    not null,
  skipped_at   integer not null,
  told         integer not null default 0,
  event_id     blob    not null,
  topic        text    not null,
  event_key    text,
  version      integer,
  content_type text    not null,
  headers      text,
  payload      blob    not null,
  occurred_at  integer not null,
  primary key (consumer, lineage, lane, n)
) strict;

create index tidegate_inbox_skipped_untold on tidegate_inbox_skipped (consumer, skipped_at) where told = 0;

-- Events n to `upto` were about to be handled, and have no result yet. `alone`: they are taken one at a time. `tenures`
-- counts the tokens under which event n was begun alone.
create table tidegate_inbox_attempt (
  consumer    integer not null,
  lineage     blob    not null,
  lane        integer not null,
  n           integer not null,
  upto        integer not null,
  token       integer not null,
  alone       integer not null,
  tenures     integer not null,
  primary key (consumer, lineage, lane, n)
) strict, without rowid;

-- What people did to dead letters, and why: positions only, neither payload nor key.
create table tidegate_inbox_audit (
  id          integer primary key autoincrement,
  consumer    integer not null,
  at          integer not null,
  action      text    not null,
  reason      text    not null,
  lineage     blob    not null,
  lane        integer not null,
  n           integer not null,
  event_id    blob    not null,
  fingerprint text    not null
) strict;

create index tidegate_inbox_audit_position on tidegate_inbox_audit (consumer, lineage, lane, n);
