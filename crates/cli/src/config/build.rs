//! Builds the typed configuration, section by section.
//!
//! Each function reads all of its values before it gives up, so that every problem is found.

use std::collections::BTreeMap;

use super::keys::{self, Key, Kind};
use super::model::{
    self, Config, Consumer, Drain, Environment, Http, Log, Outbox, Postgres, Store, Stream, Sweep, Table,
};
use super::problem::Origin;
use super::reader::{Noted, Read, Reader};
use super::tree::Path;
use super::validate::{self, Refusal};

pub(super) fn config(reader: &mut Reader<'_>) -> Read<Config> {
    let environment = reader.required(&keys::ENVIRONMENT, &[], validate::choice);
    let namespace = reader.required(&keys::NAMESPACE, &[], validate::name);
    if environment == Ok(Environment::Production) {
        refuse_shared_defaults(reader, namespace.as_deref().ok());
    }
    let store = section(reader, "store", store);
    let outbox = section(reader, "outbox", outbox);
    let stream = section(reader, "stream", stream);
    let consumer = section(reader, "consumer", consumer);
    let sweep = section(reader, "sweep", sweep);
    let kinds = check_kinds(reader, &store, &outbox, &stream, &consumer);
    let http = http(reader);
    let drain = drain(reader);
    let log = log(reader);
    kinds?;
    Ok(Config {
        environment: environment?,
        namespace: namespace?,
        store: store?,
        outbox: outbox?,
        stream: stream?,
        consumer: consumer?,
        sweep: sweep?,
        http: http?,
        drain: drain?,
        log: log?,
    })
}

/// Two deployments that both kept the defaults would write into each other's data.
fn refuse_shared_defaults(reader: &mut Reader<'_>, namespace: Option<&str>) {
    if let Some(Err(refusal)) = namespace.map(validate::production_namespace) {
        reader.refuse_value(&keys::NAMESPACE, &[], refusal);
    }
    for name in reader.declared("store") {
        let path = keys::STORE_URL.path_for(&[&name]);
        if reader.is_given(&path) && reader.origin_of(&path) == Origin::Default {
            let rule =
                "must be declared in production: the embedded default depends on the working directory";
            reader.refuse_value(&keys::STORE_URL, &[&name], Refusal::new(rule));
        }
    }
}

/// Reads every table of a section whose names the user chooses.
fn section<T>(
    reader: &mut Reader<'_>,
    section: &str,
    read: impl Fn(&mut Reader<'_>, &str) -> Read<T>,
) -> Read<BTreeMap<String, T>> {
    let mut complete = true;
    let mut tables = BTreeMap::new();
    for name in reader.declared(section) {
        if let Err(refusal) = validate::name(&name) {
            reader.refuse(
                &[section.to_owned(), name.clone()],
                badly_named(Kind::Name, refusal),
            );
            complete = false;
        }
        match read(reader, &name) {
            Ok(table) => drop(tables.insert(name, table)),
            Err(Noted) => complete = false,
        }
    }
    complete.then_some(tables).ok_or(Noted)
}

/// Says that the rule is about the key's own name.
fn badly_named(kind: Kind, refusal: Refusal) -> Refusal {
    Refusal {
        rule: format!("is not {}", kind.allowed()),
        ..refusal
    }
}

/// The name of something declared in `section`.
fn reference(reader: &mut Reader<'_>, key: &'static Key, section: &'static str, name: &str) -> Read<String> {
    let declared = reader.declared(section);
    reader.required(key, &[name], |text| validate::declared(text, section, &declared))
}

fn store(reader: &mut Reader<'_>, name: &str) -> Read<Store> {
    let url = reader.url(name)?;
    let postgres = match model::StoreKind::of(&url) {
        Some(model::StoreKind::Postgres) => postgres(reader, name)?,
        _ => refuse_of_postgres(reader, name)?,
    };
    Ok(Store { url, postgres })
}

fn postgres(reader: &mut Reader<'_>, name: &str) -> Read<Postgres> {
    let names = [name];
    let schema = reader.required(&keys::STORE_SCHEMA, &names, validate::schema);
    let connections = count(reader, &keys::STORE_CONNECTIONS, name);
    let pooler = reader.required(&keys::STORE_POOLER, &names, validate::choice);
    Ok(Postgres {
        schema: schema?,
        connections: connections?,
        pooler: pooler?,
    })
}

/// What would silently mean nothing.
fn refuse_of_postgres(reader: &mut Reader<'_>, name: &str) -> Read<Postgres> {
    let mut accepted = Ok(Postgres::default());
    for key in [&keys::STORE_SCHEMA, &keys::STORE_CONNECTIONS, &keys::STORE_POOLER] {
        let path = key.path_for(&[name]);
        if reader.is_given(&path) {
            reader.refuse(&path, Refusal::new("is for Postgres stores only"));
            accepted = Err(Noted);
        }
    }
    accepted
}

/// Says at the reference when the store cannot hold the noun.
fn refuse_kinds<T>(
    reader: &mut Reader<'_>,
    stores: &BTreeMap<String, Store>,
    users: &BTreeMap<String, T>,
    key: &'static Key,
    store_of: impl Fn(&T) -> &str,
    (noun, kinds): (&str, &[model::StoreKind]),
) -> bool {
    let mut fits = true;
    for (name, user) in users {
        let kind = stores
            .get(store_of(user))
            .and_then(|store| model::StoreKind::of(&store.url));
        if let Some(kind) = kind.filter(|kind| !kinds.contains(kind)) {
            let names: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
            let rule = format!(
                "must be a store of {}: {} cannot hold {noun}",
                keys::either(&names),
                kind.as_str()
            );
            reader.refuse_value(key, &[name], Refusal::new(rule));
            fits = false;
        }
    }
    fits
}

/// Which kinds of store hold what.
fn check_kinds(
    reader: &mut Reader<'_>,
    store: &Read<BTreeMap<String, Store>>,
    outbox: &Read<BTreeMap<String, Outbox>>,
    stream: &Read<BTreeMap<String, Stream>>,
    consumer: &Read<BTreeMap<String, Consumer>>,
) -> Read<()> {
    use model::StoreKind::{Postgres, Redis, Sqlite};
    let Ok(store) = store else { return Err(Noted) };
    let mut fits = true;
    if let Ok(all) = outbox {
        let rule = ("an outbox", &[Sqlite, Postgres][..]);
        fits &= refuse_kinds(reader, store, all, &keys::OUTBOX_STORE, |it| &it.store, rule);
    }
    if let Ok(all) = stream {
        let rule = ("a stream", &[Sqlite, Redis][..]);
        fits &= refuse_kinds(reader, store, all, &keys::STREAM_STORE, |it| &it.store, rule);
    }
    if let Ok(all) = consumer {
        let rule = ("a consumer", &[Sqlite, Postgres][..]);
        fits &= refuse_kinds(reader, store, all, &keys::CONSUMER_STORE, |it| &it.store, rule);
    }
    fits.then_some(()).ok_or(Noted)
}

fn outbox(reader: &mut Reader<'_>, name: &str) -> Read<Outbox> {
    let names = [name];
    let store = reference(reader, &keys::OUTBOX_STORE, "store", name);
    let stream = reference(reader, &keys::OUTBOX_STREAM, "stream", name);
    let lanes = reader.required(&keys::OUTBOX_LANES, &names, validate::lanes);
    let archive = reader.optional(&keys::OUTBOX_ARCHIVE, &names, within(&keys::OUTBOX_ARCHIVE));
    let alarm = reader.required(&keys::OUTBOX_ALARM, &names, within(&keys::OUTBOX_ALARM));
    let ttl = reader.required(&keys::OUTBOX_TTL, &names, validate::ttl);
    Ok(Outbox {
        store: store?,
        stream: stream?,
        lanes: lanes?,
        archive: archive?,
        alarm: alarm?,
        ttl: ttl?,
    })
}

fn stream(reader: &mut Reader<'_>, name: &str) -> Read<Stream> {
    let store = reference(reader, &keys::STREAM_STORE, "store", name);
    let retain = reader.required(&keys::STREAM_RETAIN, &[name], within(&keys::STREAM_RETAIN));
    Ok(Stream {
        store: store?,
        retain: retain?,
    })
}

fn consumer(reader: &mut Reader<'_>, name: &str) -> Read<Consumer> {
    let names = [name];
    let stream = reference(reader, &keys::CONSUMER_STREAM, "stream", name);
    let store = reference(reader, &keys::CONSUMER_STORE, "store", name);
    let start = reader.required(&keys::CONSUMER_START, &names, validate::start);
    let table = table(reader, name);
    let batch_max = count(reader, &keys::CONSUMER_BATCH_MAX, name);
    let attempts_max = count(reader, &keys::CONSUMER_ATTEMPTS_MAX, name);
    let policy = reader.required(&keys::CONSUMER_POLICY, &names, validate::choice);
    let breaker = count(reader, &keys::CONSUMER_BREAKER, name);
    let backoff_max = reader.required(
        &keys::CONSUMER_BACKOFF_MAX,
        &names,
        within(&keys::CONSUMER_BACKOFF_MAX),
    );
    let parked_max = count(reader, &keys::CONSUMER_PARKED_MAX, name);
    let parked_key_max = count(reader, &keys::CONSUMER_PARKED_KEY_MAX, name);
    refuse_key_above_total(reader, name, parked_key_max, parked_max);
    let ttl = reader.required(&keys::CONSUMER_TTL, &names, validate::ttl);
    Ok(Consumer {
        stream: stream?,
        store: store?,
        start: start?,
        table: table?,
        batch_max: batch_max?,
        attempts_max: attempts_max?,
        policy: policy?,
        breaker: breaker?,
        backoff_max: backoff_max?,
        parked_max: parked_max?,
        parked_key_max: parked_key_max?,
        ttl: ttl?,
    })
}

/// A written bound that can never be reached is a mistake; the default above a small total is not.
fn refuse_key_above_total(reader: &mut Reader<'_>, name: &str, one_key: Read<u32>, all_keys: Read<u32>) {
    let written = reader.is_given(&keys::CONSUMER_PARKED_KEY_MAX.path_for(&[name]));
    if let (true, Ok(one_key), Ok(all_keys)) = (written, one_key, all_keys)
        && one_key > all_keys
    {
        let refusal = Refusal::new(format!("must be at most parked_max, which is {all_keys}"));
        reader.refuse_value(&keys::CONSUMER_PARKED_KEY_MAX, &[name], refusal);
    }
}

/// The projection. This binary applies events in no other way, so a consumer must have one.
fn table(reader: &mut Reader<'_>, consumer: &str) -> Read<Table> {
    let path = ["consumer", consumer, "table"].map(str::to_owned);
    if !reader.is_given(&path) {
        let rule =
            "is missing; must be a table with name, key and columns, which says where events are applied";
        reader.refuse(&path, Refusal::new(rule));
        return Err(Noted);
    }
    let names = [consumer];
    let name = reader.required(&keys::TABLE_NAME, &names, validate::sql_name);
    let key = reader.required(&keys::TABLE_KEY, &names, validate::sql_name);
    let version = reader.optional(&keys::TABLE_VERSION, &names, validate::sql_name);
    let columns = columns(reader, consumer);
    Ok(Table {
        name: name?,
        key: key?,
        version: version?,
        columns: columns?,
    })
}

fn columns(reader: &mut Reader<'_>, consumer: &str) -> Read<BTreeMap<String, String>> {
    let path = ["consumer", consumer, "table", "columns"].map(str::to_owned);
    let names = reader.names_below(&path);
    if names.is_empty() {
        reader.refuse(
            &path,
            Refusal::new("is missing; must be a table of column = \"payload field\""),
        );
        return Err(Noted);
    }
    let mut complete = true;
    let mut columns: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        complete &= column_name(reader, &path, &name, &columns);
        match reader.required(&keys::TABLE_COLUMN, &[consumer, &name], validate::field) {
            Ok(field) => drop(columns.insert(name, field)),
            Err(Noted) => complete = false,
        }
    }
    complete.then_some(columns).ok_or(Noted)
}

/// SQL compares column names without case.
fn column_name(
    reader: &mut Reader<'_>,
    path: &[String],
    name: &str,
    earlier: &BTreeMap<String, String>,
) -> bool {
    let twin = earlier.keys().find(|other| other.eq_ignore_ascii_case(name));
    let refusal = match (validate::sql_name(name), twin) {
        (Err(refusal), _) => badly_named(Kind::Sql, refusal),
        (Ok(_), Some(twin)) => Refusal::new(format!("is the same column as {twin}")),
        (Ok(_), None) => return true,
    };
    let column: Path = path.iter().cloned().chain([name.to_owned()]).collect();
    reader.refuse(&column, refusal);
    false
}

fn sweep(reader: &mut Reader<'_>, name: &str) -> Read<Sweep> {
    let every = reader.required(&keys::SWEEP_EVERY, &[name], within(&keys::SWEEP_EVERY));
    let store = reference(reader, &keys::SWEEP_STORE, "store", name);
    Ok(Sweep {
        every: every?,
        store: store?,
    })
}

fn http(reader: &mut Reader<'_>) -> Read<Http> {
    let listen = reader.required(&keys::HTTP_LISTEN, &[], validate::listen)?;
    Ok(Http { listen })
}

fn drain(reader: &mut Reader<'_>) -> Read<Drain> {
    let timeout = reader.required(&keys::DRAIN_TIMEOUT, &[], within(&keys::DRAIN_TIMEOUT))?;
    Ok(Drain { timeout })
}

fn log(reader: &mut Reader<'_>) -> Read<Log> {
    let level = reader.required(&keys::LOG_LEVEL, &[], validate::choice);
    let format = reader.required(&keys::LOG_FORMAT, &[], validate::choice);
    Ok(Log {
        level: level?,
        format: format?,
    })
}

fn within(key: &'static Key) -> impl Fn(&str) -> Result<std::time::Duration, Refusal> {
    |text| validate::duration_within(text, key.kind)
}

fn count(reader: &mut Reader<'_>, key: &'static Key, name: &str) -> Read<u32> {
    reader.required(key, &[name], |text| validate::count(text, key.kind))
}
