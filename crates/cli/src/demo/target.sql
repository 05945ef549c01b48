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

-- Each time a consumer came to own a lane, noted in the transaction that did it. `ran_out`: its owner before had not
-- left.
create table tenure (
  id      integer primary key,
  lane    integer not null,
  label   text    not null,
  before  text    not null,
  ran_out integer not null
) strict;

create trigger tenure_noted after update of token on tidegate_consumer_lane when new.token <> old.token begin
  insert into tenure (lane, label, before, ran_out) values (new.lane, new.label, old.label, old.owner is not null);
end;

-- What happened to parked keys, noted in the transactions that did it: `parked`, `waits` for each event, `redriven`.
-- `applied` is the last id in `applied` at that moment.
create table parked_history (
  id       integer primary key,
  what     text    not null,
  key      text    not null,
  event_id blob,
  applied  integer not null
) strict;

create trigger parked_noted after insert on tidegate_inbox_parked begin
  insert into parked_history (what, key, applied)
  values ('parked', new.key, (select coalesce(max(id), 0) from applied));
end;

create trigger waits_noted after insert on tidegate_inbox_parked_event begin
  insert into parked_history (what, key, event_id, applied)
  values ('waits', new.key, new.event_id, (select coalesce(max(id), 0) from applied));
end;

create trigger redriven_noted after insert on tidegate_inbox_audit when new.action = 'redrive' begin
  insert into parked_history (what, key, event_id, applied)
  select 'redriven', key, new.event_id, (select coalesce(max(id), 0) from applied)
  from tidegate_inbox_parked_event
  where consumer = new.consumer and lineage = new.lineage and lane = new.lane and n = new.n;
end;
