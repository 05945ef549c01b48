-- Positions of loops that users write themselves: only ever changed in the caller's transaction.
create table "tidegate_checkpoint" (
  subscription text    not null primary key,
  last_id      text    not null,
  high_water   integer,
  consumed     integer not null,
  updated_at   integer not null
) strict, without rowid;
