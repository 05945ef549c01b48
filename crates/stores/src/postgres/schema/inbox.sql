-- Consumers that apply to this database.
create table tidegate.consumer (
  id          bigint generated always as identity primary key,
  name        text   not null unique
);

-- Where a consumer stands in each lane, and who owns the lane. `clean`: the last owner drained before it left. In every snapshot
-- hw = start + applied + voids + skipped + parked + discarded, and `parked` counts the lane's parked events.
create table tidegate.consumer_lane (
  consumer    bigint  not null,
  lineage     uuid    not null,
  lane        integer not null,
  owner       uuid,
  label       text    not null default '',
  token       bigint  not null default 0,
  lease_until bigint  not null default 0,
  hw          bigint  not null,
  chain       bytea   not null,
  cursor_hi   bigint  not null,
  cursor_lo   bigint  not null,
  clean       boolean not null,
  start       bigint  not null,
  applied     bigint  not null default 0,
  voids       bigint  not null default 0,
  skipped     bigint  not null default 0,
  parked      bigint  not null default 0,
  discarded   bigint  not null default 0,
  primary key (consumer, lineage, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Live consumers, by heartbeat.
create table tidegate.consumer_member (
  consumer    bigint not null,
  member      uuid   not null,
  label       text   not null,
  seen        bigint not null,
  ttl         bigint not null,
  primary key (consumer, member)
) with (fillfactor = 50);

-- Keys whose head could not be applied: `retrying` at `next_at`, or `dead` until a person acts. `events` counts those that wait, the head
-- included. `told`: a user's sink has taken the dead head.
create table tidegate.inbox_parked (
  consumer    bigint  not null,
  lineage     uuid    not null,
  key         text    not null,
  lane        integer not null,
  state       text    not null,
  events      bigint  not null default 0,
  attempts    integer not null default 0,
  next_at     bigint  not null,
  class       text    not null,
  fingerprint text    not null,
  message     text    not null,
  parked_at   bigint  not null,
  failed_at   bigint  not null,
  told        boolean not null default false,
  primary key (consumer, lineage, key)
);

create index inbox_parked_due on tidegate.inbox_parked (consumer, next_at) where state = 'retrying';
create index inbox_parked_untold on tidegate.inbox_parked (consumer, parked_at) where state = 'dead' and not told;

-- Events that wait behind a parked key, in order of n, as they came.
create table tidegate.inbox_parked_event (
  consumer     bigint  not null,
  lineage      uuid    not null,
  key          text    not null,
  n            bigint  not null,
  lane         integer not null,
  event_id     uuid    not null,
  topic        text    not null,
  event_key    text,
  version      bigint,
  content_type text    not null,
  headers      text,
  payload      bytea   not null,
  occurred_at  bigint  not null,
  primary key (consumer, lineage, key, n)
);

create index inbox_parked_event_position on tidegate.inbox_parked_event (consumer, lineage, lane, n);

-- Events that the policy `skip` dead-lettered: they do not hold back their key.
create table tidegate.inbox_skipped (
  consumer     bigint  not null,
  lineage      uuid    not null,
  lane         integer not null,
  n            bigint  not null,
  key          text    not null,
  class        text    not null,
  fingerprint  text    not null,
  message      text    not null,
  skipped_at   bigint  not null,
  told         boolean not null default false,
  event_id     uuid    not null,
  topic        text    not null,
  event_key    text,
  version      bigint,
  content_type text    not null,
  headers      text,
  payload      bytea   not null,
  occurred_at  bigint  not null,
  primary key (consumer, lineage, lane, n)
);

create index inbox_skipped_untold on tidegate.inbox_skipped (consumer, skipped_at) where not told;

-- Events n to `upto` were about to be handled, and have no result yet. `alone`: they are taken one at a time. `tenures` counts the tokens
-- under which event n was begun alone.
create table tidegate.inbox_attempt (
  consumer    bigint  not null,
  lineage     uuid    not null,
  lane        integer not null,
  n           bigint  not null,
  upto        bigint  not null,
  token       bigint  not null,
  alone       boolean not null,
  tenures     integer not null,
  primary key (consumer, lineage, lane, n)
);

-- What people did to dead letters, and why: positions only, neither payload nor key.
create table tidegate.inbox_audit (
  id          bigint  generated always as identity primary key,
  consumer    bigint  not null,
  at          bigint  not null,
  action      text    not null,
  reason      text    not null,
  lineage     uuid    not null,
  lane        integer not null,
  n           bigint  not null,
  event_id    uuid    not null,
  fingerprint text    not null
);

create index inbox_audit_position on tidegate.inbox_audit (consumer, lineage, lane, n);
