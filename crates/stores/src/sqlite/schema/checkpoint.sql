-- Positions of loops that users write themselves: only ever changed in the caller's transaction.
create table tidegate_checkpoint (
  name        text    not null primary key,
  position    blob    not null,
  updated_at  integer not null
) strict, without rowid;

-- Ids seen by such loops.
create table tidegate_seen (
  scope       text    not null,
  id          blob    not null,
  seen_at     integer not null,
  primary key (scope, id)
) strict, without rowid;
