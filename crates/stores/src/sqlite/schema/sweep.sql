-- Where resumable sweeps stand: only ever changed in the job's own transaction. `version` counts saves.
create table tidegate_sweep (
  name        text    not null primary key,
  version     integer not null,
  position    blob    not null,
  saved_at    integer not null
) strict, without rowid;
