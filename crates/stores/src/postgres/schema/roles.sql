-- Roles without login, to be granted to those of your services. Each may do what its name says and no more.
-- Run as the owner of the schema, after the tables are there. May be run again.
do $$
declare
  wanted text;
begin
  foreach wanted in array array['tidegate_producer', 'tidegate_relay', 'tidegate_auditor'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      execute format('create role %I nologin', wanted);
    end if;
  end loop;
end
$$;

revoke all on all functions in schema tidegate from public;
grant usage on schema tidegate to tidegate_producer, tidegate_relay, tidegate_auditor;

-- Writes events and reads none. `seq` is not its to choose.
grant select on tidegate.outbox_settings to tidegate_producer;
grant insert (outbox, lane, event_id, topic, key, version, content_type, headers, payload, occurred_at)
  on tidegate.outbox to tidegate_producer;
grant execute on all functions in schema tidegate to tidegate_producer;

-- Publishes what is there.
grant select on tidegate.schema to tidegate_relay;
grant select, insert, update on tidegate.outbox_settings to tidegate_relay;
grant select, insert, delete on tidegate.outbox to tidegate_relay;
grant select, insert, update on tidegate.lane to tidegate_relay;
grant select, insert, update, delete on tidegate.member, tidegate.outbox_parked_key, tidegate.outbox_parked,
  tidegate.outbox_archive to tidegate_relay;

-- Reads what is not a payload.
grant select on tidegate.schema, tidegate.outbox_settings, tidegate.lane, tidegate.member, tidegate.outbox_parked_key
  to tidegate_auditor;
grant select (seq, outbox, lane, event_id, topic, version, occurred_at) on tidegate.outbox to tidegate_auditor;
