-- Events that such loops have seen. `scope` keeps two of them apart.
create table "tidegate_seen" (
  scope        text    not null,
  event_id     text    not null,
  topic        text    not null,
  seen_at      integer not null,
  primary key (scope, event_id, topic)
) strict, without rowid;

create index "tidegate_seen_by_time" on "tidegate_seen" (scope, seen_at);
