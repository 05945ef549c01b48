-- Outboxes in this schema. `lanes` never changes; `archive` keeps settled rows. Holds of an outbox lock its row.
create table tidegate.outbox_settings (
  id          bigint   generated always as identity primary key,
  name        text     not null unique,
  lineage     uuid     not null unique,
  lanes       smallint not null,
  archive     boolean  not null
);

-- Rows waiting to be published. `seq` is drawn before the commit: a smaller one may become visible after a larger one.
-- The key is the only index. Rows live for milliseconds, so they are vacuumed by number, not by share.
create table tidegate.outbox (
  seq          bigint   generated always as identity (cache 1),
  outbox       bigint   not null,
  lane         smallint not null,
  event_id     uuid     not null,
  topic        text     not null,
  key          text,
  version      bigint,
  content_type text     not null,
  headers      text,
  payload      bytea    not null,
  occurred_at  bigint   not null,
  primary key (outbox, lane, seq)
) with (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0
);

-- One row per lane: who owns it, what is settled, what is planned. `plan` holds a seq for each number after `settled`;
-- zero is a void marker. `parked` counts keys set aside.
create table tidegate.lane (
  outbox      bigint   not null,
  slot        smallint not null,
  owner       uuid,
  label       text     not null default '',
  token       bigint   not null default 0,
  lease_until bigint   not null default 0,
  settled     bigint   not null default 0,
  chain       bytea    not null default '\x00000000000000000000000000000000',
  plan        bigint[] not null default '{}',
  parked      integer  not null default 0,
  primary key (outbox, slot)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Live relays, by heartbeat.
create table tidegate.member (
  outbox      bigint not null,
  member      uuid   not null,
  label       text   not null,
  seen        bigint not null,
  ttl         bigint not null,
  primary key (outbox, member)
) with (fillfactor = 50);

-- Keys set aside, by `k:` and the key, or `e:` and the event id.
create table tidegate.outbox_parked_key (
  outbox      bigint   not null,
  key         text     not null,
  lane        smallint not null,
  reason      text     not null,
  attempts    integer  not null,
  parked_at   bigint   not null,
  primary key (outbox, key)
);

-- Rows of keys set aside, with the seq they had.
create table tidegate.outbox_parked (
  outbox       bigint   not null,
  parked_key   text     not null,
  seq          bigint   not null,
  lane         smallint not null,
  event_id     uuid     not null,
  topic        text     not null,
  key          text,
  version      bigint,
  content_type text     not null,
  headers      text,
  payload      bytea    not null,
  occurred_at  bigint   not null,
  primary key (outbox, parked_key, seq)
);

-- Settled rows with their numbers; `id` is the order of settling. `prior` is the chain at `n - 1`; a void marker has no
-- event.
create table tidegate.outbox_archive (
  id           bigint   generated always as identity (cache 1),
  outbox       bigint   not null,
  lane         smallint not null,
  n            bigint   not null,
  prior        bytea    not null,
  settled_at   bigint   not null,
  event_id     uuid,
  topic        text,
  key          text,
  version      bigint,
  content_type text,
  headers      text,
  payload      bytea,
  occurred_at  bigint,
  primary key (outbox, lane, n),
  unique (outbox, id)
);

-- The slot of an event: the first eight bytes of SHA-256 of its tagged key, modulo the lanes. Lanes are a power of two
-- below 65,536, so the last two of the eight are enough.
create function tidegate.lane_of(lanes integer, key text, event_id uuid) returns smallint
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select ((get_byte(d, 6) * 256 + get_byte(d, 7)) % lanes)::smallint
  from (select sha256(case when key is null then 'e:'::bytea || uuid_send(event_id)
                           else 'k:'::bytea || convert_to(key, 'UTF8') end) as d) as digest
$$;

-- A uuid that sorts by its time (version 7).
create function tidegate.event_id() returns uuid
language sql volatile parallel safe set search_path = pg_catalog, pg_temp as $$
  select encode(set_byte(timed, 6, (get_byte(timed, 6) & 15) | 112), 'hex')::uuid
  from (select overlay(uuid_send(gen_random_uuid()) placing
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6) as timed) as made
$$;

-- Refuses a text outside its limit. The message names the field, never the value.
create function tidegate.check_text(field text, value text, shortest integer, longest integer) returns void
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  bytes integer := octet_length(convert_to(value, 'UTF8'));
begin
  if bytes < shortest or bytes > longest then
    raise exception '% is % bytes; it must have % to %', field, bytes, shortest, longest using errcode = '22023';
  end if;
  if value ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '% has a control character', field using errcode = '22023';
  end if;
end
$$;

-- Headers as an object of texts, or as an array of name and value pairs, in the form that the table keeps.
create function tidegate.headers_text(headers jsonb) returns text
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  pairs jsonb;
  pair  jsonb;
  total integer := 0;
begin
  if headers is null or jsonb_typeof(headers) = 'null' then
    return null;
  elsif jsonb_typeof(headers) = 'object' then
    select jsonb_agg(jsonb_build_array(h.key, h.value)) into pairs from jsonb_each(headers) as h;
  elsif jsonb_typeof(headers) = 'array' then
    pairs := headers;
  else
    raise exception 'headers must be an object or an array of pairs' using errcode = '22023';
  end if;
  for pair in select p from jsonb_array_elements(coalesce(pairs, '[]')) as p loop
    if jsonb_typeof(pair) <> 'array' or jsonb_array_length(pair) <> 2
      or jsonb_typeof(pair -> 0) <> 'string' or jsonb_typeof(pair -> 1) <> 'string' then
      raise exception 'headers must have texts as names and values' using errcode = '22023';
    end if;
    perform tidegate.check_text('header name', pair ->> 0, 1, 16384);
    perform tidegate.check_text('header value', pair ->> 1, 0, 16384);
    total := total + octet_length(convert_to(pair ->> 0, 'UTF8')) + octet_length(convert_to(pair ->> 1, 'UTF8'));
  end loop;
  if total > 16384 then
    raise exception 'headers is % bytes; the limit is 16384', total using errcode = '22023';
  end if;
  return nullif(pairs, '[]')::text;
end
$$;

-- Writes an event in the caller's transaction: it exists if that commits. Returns its id.
create function tidegate.enqueue(
  outbox text, topic text, key text, payload bytea, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
declare
  here bigint;
  many integer;
  made uuid := coalesce(event_id, tidegate.event_id());
begin
  select s.id, s.lanes into here, many from tidegate.outbox_settings as s where s.name = enqueue.outbox;
  if here is null then
    raise exception 'there is no outbox of this name' using errcode = '22023', hint = 'tidegate run makes it.';
  end if;
  if topic is null or payload is null or content_type is null then
    raise exception 'topic, payload and content_type must not be null' using errcode = '22004';
  end if;
  perform tidegate.check_text('topic', topic, 1, 255);
  if key is not null then
    perform tidegate.check_text('key', key, 1, 512);
  end if;
  perform tidegate.check_text('content_type', content_type, 1, 255);
  if octet_length(payload) > 1048576 then
    raise exception 'payload is % bytes; the limit is 1048576', octet_length(payload) using errcode = '22023';
  end if;
  insert into tidegate.outbox
    (outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
  values (here, tidegate.lane_of(many, key, made), made, topic, key, version, content_type,
    tidegate.headers_text(headers), payload, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
  return made;
end
$$;

create function tidegate.enqueue(
  outbox text, topic text, key text, payload text, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language sql volatile security invoker set search_path = pg_catalog, pg_temp as $$
  select tidegate.enqueue(outbox, topic, key, convert_to(payload, 'UTF8'), headers, version, event_id, content_type)
$$;

create function tidegate.enqueue(
  outbox text, topic text, key text, payload jsonb, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language sql volatile security invoker set search_path = pg_catalog, pg_temp as $$
  select tidegate.enqueue(outbox, topic, key, convert_to(payload::text, 'UTF8'), headers, version, event_id, content_type)
$$;

-- The same, holding a lock of the key until the transaction ends: events of a key are then in the order of commits.
create function tidegate.enqueue_ordered(
  outbox text, topic text, key text, payload bytea, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language plpgsql volatile security invoker set search_path = pg_catalog, pg_temp as $$
begin
  if key is null then
    raise exception 'key must not be null: there is no order without it' using errcode = '22004';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(outbox || chr(31) || key, 7953764));
  return tidegate.enqueue(outbox, topic, key, payload, headers, version, event_id, content_type);
end
$$;

create function tidegate.enqueue_ordered(
  outbox text, topic text, key text, payload text, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language sql volatile security invoker set search_path = pg_catalog, pg_temp as $$
  select tidegate.enqueue_ordered(outbox, topic, key, convert_to(payload, 'UTF8'), headers, version, event_id, content_type)
$$;

create function tidegate.enqueue_ordered(
  outbox text, topic text, key text, payload jsonb, headers jsonb default null, version bigint default null,
  event_id uuid default null, content_type text default 'application/json'
) returns uuid
language sql volatile security invoker set search_path = pg_catalog, pg_temp as $$
  select tidegate.enqueue_ordered(outbox, topic, key, convert_to(payload::text, 'UTF8'), headers, version, event_id,
    content_type)
$$;
