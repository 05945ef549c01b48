-- What this schema holds and who made it so. A binary refuses a version above its own.
create schema if not exists tidegate;

create table if not exists tidegate.schema (
  version     bigint primary key,
  checksum    text   not null,
  applied_at  bigint not null
);
