-- What this file holds and who made it so. A binary refuses a version above its own.
create table if not exists tidegate_schema (
  version     integer primary key,
  checksum    text    not null,
  applied_at  integer not null
) strict;
