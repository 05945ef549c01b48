-- Leases. Times are microseconds of the server's clock; a vacant record keeps its token and has no nonce.
create table tidegate.lease (
  scope       text   primary key,
  token       bigint not null,
  nonce       uuid,
  holder      text,
  ttl         bigint not null,
  lease_until bigint not null
) with (fillfactor = 50);

-- What this database accepts writes under.
create table tidegate.fence (
  scope       text   primary key,
  token       bigint not null,
  nonce       uuid   not null
);
