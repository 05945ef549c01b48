-- Leases. `lease_until` is on the clock of the boot in `boot`; a vacant record keeps its token and has no nonce.
create table tidegate_lease (
  scope       text    not null primary key,
  token       integer not null,
  nonce       blob,
  holder      text,
  ttl         integer not null,
  lease_until integer not null,
  boot        blob    not null
) strict, without rowid;

-- What this database accepts writes under.
create table tidegate_fence (
  scope       text    not null primary key,
  token       integer not null,
  nonce       blob    not null
) strict, without rowid;
