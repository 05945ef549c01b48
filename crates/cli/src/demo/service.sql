-- The service's own table: one row per record, written in the same transaction as its event.
create table flight (
  event_id     blob    primary key,
  line         integer not null,
  key          text    not null,
  body         text    not null,
  committed_at integer not null
) strict;

-- What the service rolled back, noted afterwards, for the auditor.
create table rolled_back (event_id blob primary key) strict;

-- Each time a relay came to own a lane, noted in the transaction that did it. `ran_out`: its owner before had not
-- left. `planned`: numbered events that the owner before had in hand.
create table tenure (
  id      integer primary key,
  lane    integer not null,
  label   text    not null,
  before  text    not null,
  ran_out integer not null,
  planned integer not null
) strict;

create trigger tenure_noted after update of token on tidegate_lane when new.token <> old.token begin
  insert into tenure (lane, label, before, ran_out, planned)
  values (new.slot, coalesce(new.label, ''), coalesce(old.label, ''), old.owner is not null, length(old.plan) / 8);
end;
