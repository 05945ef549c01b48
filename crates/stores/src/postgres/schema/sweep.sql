-- Where resumable sweeps stand: only ever changed in the job's own transaction. `version` counts saves.
create table tidegate.sweep (
  name        text   primary key,
  version     bigint not null,
  position    bytea  not null,
  saved_at    bigint not null
);
