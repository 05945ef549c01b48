use super::{SHOP, accept, file, refuse, shop, with_environment, with_set};
use crate::config::{Sources, load};

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    let text = r#"namespace = "Shop"
[outbox.orders]
store = "bd"
stream = "order"
lanes = 65
archive = "0s"
alarm = 24
[store.db]
url = "sqlite:shop.db"
[stream.orders]
store = "db"
retian = "7d"
"#;
    let sources = with_environment(file(text), &[("TIDEGATE__LOG__LEVEL", "loud")]);
    let sources = with_set(sources, &["drain.timeout=2h"]);
    assert_eq!(
        refuse(&sources),
        [
            r#"tidegate.toml:1: namespace = "Shop": must be a name of a-z, 0-9, _ and -, starting with a letter, of at most 63 characters; did you mean shop?"#,
            r#"tidegate.toml:3: outbox.orders.store = "bd": is not a declared store; declared: db; did you mean db?"#,
            r#"tidegate.toml:4: outbox.orders.stream = "order": is not a declared stream; declared: orders; did you mean orders?"#,
            "tidegate.toml:5: outbox.orders.lanes = 65: must be a power of two from 1 to 1024; did you mean 64?",
            r#"tidegate.toml:6: outbox.orders.archive = "0s": must be a duration from 1s to 3650d"#,
            "tidegate.toml:7: outbox.orders.alarm = 24: needs a unit: write 24ms, 24s, 24m, 24h or 24d",
            "tidegate.toml:12: stream.orders.retian: is not a known key; known here: store, retain; did you mean retain?",
            "environment TIDEGATE__LOG__LEVEL: log.level = loud: must be error, warn, info, debug or trace",
            "--set: drain.timeout = 2h: must be a duration from 100ms to 1h",
        ]
    );
}

#[test]
fn broken_toml_is_reported_with_its_line_and_without_its_text() {
    let problems = refuse(&file("namespace = \"shop\"\n\n[store]\ndb = { url = hunter2 }\n"));
    assert_eq!(
        problems,
        ["tidegate.toml:4: is not TOML: string values must be quoted, expected literal string"]
    );
}

#[test]
fn a_key_written_twice_is_reported_where_it_is_repeated() {
    assert_eq!(
        refuse(&file("namespace = \"a\"\nnamespace = \"b\"\n")),
        ["tidegate.toml:2: is not TOML: duplicate key"]
    );
}

#[test]
fn an_unknown_key_is_reported_once_without_its_value() {
    let sources = shop(
        "[outbox.orders]\n",
        "[outbox.orders]\npassword = { deep = \"hunter2\" }\n",
    );
    assert_eq!(
        refuse(&sources),
        [
            "tidegate.toml:7: outbox.orders.password: is not a known key; known here: store, stream, lanes, archive, alarm, ttl"
        ]
    );
}

#[test]
fn an_unknown_section_is_reported_with_the_known_ones() {
    assert_eq!(
        refuse(&file("[consumers.billing]\nstart = \"now\"\n")),
        [
            "tidegate.toml:1: consumers: is not a known key; known here: environment, namespace, store, outbox, stream, \
          consumer, sweep, http, drain, log; did you mean consumer?"
        ]
    );
}

#[test]
fn a_key_of_another_section_is_pointed_to_it() {
    let sources = shop("[outbox.orders]\n", "[outbox.orders]\nretain = \"7d\"\n");
    let [problem] = refuse(&sources).try_into().expect("one problem");
    assert!(problem.ends_with("; did you mean stream.*.retain?"), "{problem}");
}

#[test]
fn a_key_of_a_variable_or_a_flag_can_be_unknown_too() {
    let sources = with_environment(file(SHOP), &[("TIDEGATE__HTTP__LISTENS", "x")]);
    let sources = with_set(sources, &["outbox.orders.lane=8"]);
    assert_eq!(
        refuse(&sources),
        [
            "environment TIDEGATE__HTTP__LISTENS: http.listens: is not a known key; known here: listen; did you mean listen?",
            "--set: outbox.orders.lane: is not a known key; known here: store, stream, lanes, archive, alarm, ttl; \
             did you mean lanes?",
        ]
    );
}

#[test]
fn a_section_of_the_design_that_is_not_built_says_so() {
    assert_eq!(
        refuse(&file("[debounce.save-doc]\nquiet = \"500ms\"\n")),
        ["tidegate.toml:1: debounce: is not built into this binary yet"]
    );
}

#[test]
fn a_wrong_type_names_the_right_one() {
    let cases = [
        (
            "lanes = \"64\"",
            r#"outbox.orders.lanes = "64": must be a power of two from 1 to 1024, not a string"#,
        ),
        (
            "lanes = 6.5",
            "outbox.orders.lanes = (a fraction): must be a power of two from 1 to 1024, not a fraction",
        ),
        (
            "lanes = { a = 1 }",
            "outbox.orders.lanes = {...}: must be a power of two from 1 to 1024, not a table",
        ),
        (
            "ttl = true",
            "outbox.orders.ttl = (true or false): must be a duration from 1s to 1h, not true or false",
        ),
        (
            "ttl = [1]",
            "outbox.orders.ttl = (an array): must be a duration from 1s to 1h, not an array",
        ),
    ];
    for (line, expected) in cases {
        let sources = shop("[outbox.orders]\n", &format!("[outbox.orders]\n{line}\n"));
        assert_eq!(refuse(&sources), [format!("tidegate.toml:7: {expected}")]);
    }
}

#[test]
fn a_value_where_a_table_is_due_is_a_problem() {
    assert_eq!(
        refuse(&file(
            "http = 7070\n[[outbox]]\nstore = \"db\"\n[stream]\norders = \"db\"\n"
        )),
        [
            "tidegate.toml:1: http = 7070: must be a table, not a number",
            "tidegate.toml:2: outbox = (an array): must be a table, not an array",
            r#"tidegate.toml:5: stream.orders = "db": must be a table, not a string"#,
        ]
    );
}

#[test]
fn a_missing_key_is_reported_where_its_section_begins() {
    assert_eq!(
        refuse(&file(
            "[store.db]\nurl = \"sqlite:a.db\"\n[outbox.orders]\n[consumer.billing]\n"
        )),
        [
            "tidegate.toml:3: outbox.orders.store: is missing; must be the name of a declared store",
            "tidegate.toml:3: outbox.orders.stream: is missing; must be the name of a declared stream",
            "tidegate.toml:4: consumer.billing.stream: is missing; must be the name of a declared stream",
            "tidegate.toml:4: consumer.billing.store: is missing; must be the name of a declared store",
            "tidegate.toml:4: consumer.billing.start: is missing; must be earliest, now or at:TIME, such as at:2026-01-31T00:00:00Z",
            "tidegate.toml:4: consumer.billing.table: is missing; must be a table with name, key and columns, \
             which says where events are applied",
        ]
    );
}

#[test]
fn a_reference_with_nothing_declared_says_so() {
    assert_eq!(
        refuse(&file("[stream.orders]\nstore = \"db\"\n")),
        [r#"tidegate.toml:2: stream.orders.store = "db": is not a declared store; none is declared"#]
    );
}

#[test]
fn a_lease_too_short_to_renew_is_refused_with_its_time_table() {
    let short = with_set(file(SHOP), &["outbox.orders.ttl=500ms"]);
    assert_eq!(
        refuse(&short),
        [
            "--set: outbox.orders.ttl = 500ms: must be a duration from 1s to 1h; two renewals of 100ms after 183ms \
          do not fit into the 350ms that the holder trusts it"
        ]
    );
    let long = with_set(file(SHOP), &["consumer.billing.ttl=61m"]);
    assert_eq!(
        refuse(&long),
        ["--set: consumer.billing.ttl = 61m: must be a duration from 1s to 1h"]
    );
}

#[test]
fn numbers_outside_their_bounds_are_refused_with_the_bounds() {
    let cases = [
        (
            "consumer.billing.batch_max=0",
            "must be a whole number from 1 to 10000",
        ),
        (
            "consumer.billing.batch_max=10001",
            "must be a whole number from 1 to 10000",
        ),
        (
            "consumer.billing.attempts_max=many",
            "must be a whole number from 1 to 1000",
        ),
        (
            "consumer.billing.breaker=1",
            "must be a whole number from 2 to 10000",
        ),
        (
            "outbox.orders.lanes=0",
            "must be a power of two from 1 to 1024; did you mean 1?",
        ),
        (
            "outbox.orders.lanes=100",
            "must be a power of two from 1 to 1024; did you mean 128?",
        ),
        (
            "outbox.orders.lanes=70000",
            "must be a power of two from 1 to 1024; did you mean 1024?",
        ),
        ("outbox.orders.lanes=-4", "must be a power of two from 1 to 1024"),
    ];
    for (argument, rule) in cases {
        let given = argument.replace('=', " = ");
        assert_eq!(
            refuse(&with_set(file(SHOP), &[argument])),
            [format!("--set: {given}: {rule}")]
        );
    }
}

#[test]
fn choices_are_refused_with_the_nearest_one() {
    let cases = [
        (
            "consumer.billing.policy=prak",
            "must be park, skip or halt; did you mean park?",
        ),
        ("log.format=jsno", "must be text or json; did you mean json?"),
        (
            "environment=prod",
            "must be development or production; did you mean production?",
        ),
        (
            "consumer.billing.start=Earliest",
            "must be earliest, now or at:TIME, such as at:2026-01-31T00:00:00Z; did you mean earliest?",
        ),
        (
            "consumer.billing.start=at:yesterday",
            "must be earliest, now or at:TIME, such as at:2026-01-31T00:00:00Z",
        ),
        (
            "consumer.billing.start=snapshot",
            "is not built into this binary yet; use earliest, now or at:TIME, such as at:2026-01-31T00:00:00Z",
        ),
    ];
    for (argument, rule) in cases {
        let given = argument.replacen('=', " = ", 1);
        assert_eq!(
            refuse(&with_set(file(SHOP), &[argument])),
            [format!("--set: {given}: {rule}")]
        );
    }
}

#[test]
fn names_keep_to_their_grammar() {
    let long = format!("[stream.{}]\nstore = \"db\"\n", "a".repeat(64));
    for (section, suggestion) in [
        ("[stream.Orders2]", "; did you mean orders2?"),
        ("[stream.\"a.b\"]", "; did you mean a-b?"),
        ("[stream.2nd]", ""),
    ] {
        let [problem] = refuse(&file(&format!("{SHOP}{section}\nstore = \"db\"\n")))
            .try_into()
            .expect("one problem");
        let rule = "is not a name of a-z, 0-9, _ and -, starting with a letter, of at most 63 characters";
        assert!(problem.ends_with(&format!("{rule}{suggestion}")), "{problem}");
    }
    assert_eq!(refuse(&file(&format!("{SHOP}{long}"))).len(), 1);
}

#[test]
fn table_and_column_names_are_safe_to_put_into_sql() {
    let sources = with_set(
        file(SHOP),
        &[
            "consumer.billing.table.name=orders\"; drop table x",
            "consumer.billing.table.key=order-id",
        ],
    );
    let rule =
        "must be an SQL name of letters, digits and _, not starting with a digit, of at most 63 characters";
    assert_eq!(
        refuse(&sources),
        [
            format!("--set: consumer.billing.table.name = orders\"; drop table x: {rule}"),
            format!("--set: consumer.billing.table.key = order-id: {rule}; did you mean order_id?"),
        ]
    );
}

#[test]
fn columns_differing_in_case_only_are_refused() {
    let sources = shop("total = \"total\"", "ID = \"total\"");
    assert_eq!(
        refuse(&sources),
        ["tidegate.toml:17: consumer.billing.table.columns.id: is the same column as ID"]
    );
}

#[test]
fn a_projection_needs_a_column() {
    let sources = shop(", columns = { id = \"id\", total = \"total\" }", "");
    assert_eq!(
        refuse(&sources),
        [
            "tidegate.toml:17: consumer.billing.table.columns: is missing; must be a table of column = \"payload field\""
        ]
    );
}

#[test]
fn a_written_bound_of_one_key_above_that_of_all_is_refused() {
    let sources = with_set(
        file(SHOP),
        &[
            "consumer.billing.parked_max=10",
            "consumer.billing.parked_key_max=11",
        ],
    );
    assert_eq!(
        refuse(&sources),
        ["--set: consumer.billing.parked_key_max = 11: must be at most parked_max, which is 10"]
    );
    accept(&with_set(file(SHOP), &["consumer.billing.parked_max=10"]));
}

#[test]
fn stores_that_are_not_built_in_say_so_at_their_key() {
    assert_eq!(
        refuse(&shop("sqlite:shop.db", "nats://hub")),
        [
            "tidegate.toml:4: store.db.url = \"nats://hub\": nats: is not built into this binary; sqlite, postgres, postgresql, \
             redis, rediss are"
        ]
    );
}

#[test]
fn a_store_holds_only_what_its_kind_can() {
    let cases = [
        (
            "redis://cache",
            vec![
                "tidegate.toml:7: outbox.orders.store = \"db\": must be a store of SQLite or Postgres: Redis cannot hold an outbox",
                "tidegate.toml:15: consumer.billing.store = \"db\": must be a store of SQLite or Postgres: Redis cannot hold a consumer",
            ],
        ),
        (
            "postgres://db",
            vec![
                "tidegate.toml:11: stream.orders.store = \"db\": must be a store of SQLite or Redis: Postgres cannot hold a stream",
            ],
        ),
    ];
    for (url, problems) in cases {
        assert_eq!(refuse(&shop("sqlite:shop.db", url)), problems);
    }
    let pipeline = shop(
        "url = \"sqlite:shop.db\" }",
        "url = \"postgresql://db/shop\" }\ncache = { url = \"rediss://cache\" }",
    );
    let both = with_set(
        pipeline,
        &[
            "stream.orders.store=cache",
            "store.log.url=sqlite:a.db",
            "consumer.billing.store=log",
        ],
    );
    let loaded = accept(&both);
    assert_eq!(loaded.config.store["db"].postgres.schema, "tidegate");
}

#[test]
fn what_only_postgres_has_is_refused_elsewhere_and_checked_there() {
    for (key, value) in [
        ("schema", "\"shop\""),
        ("connections", "4"),
        ("pooler", "\"transaction\""),
    ] {
        let text = format!("\"sqlite:shop.db\", {key} = {value}");
        assert_eq!(
            refuse(&shop("\"sqlite:shop.db\"", &text)),
            [format!(
                "tidegate.toml:4: store.db.{key}: is for Postgres stores only"
            )]
        );
    }
    let cases = [
        (
            "schema = \"Shop\"",
            "must be a schema name of a-z, 0-9 and _, not starting with a digit or pg_, of at most 63 characters",
        ),
        (
            "schema = \"pg_shop\"",
            "must be a schema name of a-z, 0-9 and _, not starting with a digit or pg_, of at most 63 characters",
        ),
        ("connections = 1", "must be a whole number from 2 to 1000"),
        ("pooler = \"session\"", "must be none or transaction"),
    ];
    for (given, rule) in cases {
        let text = format!("\"postgres://db\", {given}");
        let sources = with_set(
            shop("\"sqlite:shop.db\"", &text),
            &[
                "store.log.url=sqlite:a.db",
                "stream.orders.store=log",
                "consumer.billing.store=log",
            ],
        );
        let (key, value) = given.split_once(" = ").expect("a pair");
        assert_eq!(
            refuse(&sources),
            [format!("tidegate.toml:4: store.db.{key} = {value}: {rule}")]
        );
    }
}

#[test]
fn store_urls_that_cannot_open_are_refused() {
    let cases = [
        ("shop.db", "must be a store URL such as sqlite:tidegate.db"),
        (
            "sqlit:shop.db",
            "must be a store URL such as sqlite:tidegate.db; did you mean sqlite:?",
        ),
        ("sqlite:", "must name a file after sqlite:"),
        (
            "sqlite::memory:",
            "must name a file: workers cannot share :memory:",
        ),
        ("sqlite:///tmp/a.db", "must be sqlite: and a path, without //"),
    ];
    for (url, rule) in cases {
        assert_eq!(
            refuse(&shop("sqlite:shop.db", url)),
            [format!("tidegate.toml:4: store.db.url = {url:?}: {rule}")]
        );
    }
}

#[test]
fn an_address_without_an_ip_is_refused() {
    assert_eq!(
        refuse(&with_set(file(SHOP), &["http.listen=localhost:80"])),
        [
            "--set: http.listen = localhost:80: must be an IP address and a port, such as 127.0.0.1:7070; did you mean 127.0.0.1:80?"
        ]
    );
}

#[test]
fn production_refuses_the_namespace_that_deployments_could_share() {
    let rule = "must not be the default in production: two deployments would share tables, keys and subjects";
    let unnamed = shop("namespace = \"shop\"", "environment = \"production\"");
    assert_eq!(
        refuse(&unnamed),
        [format!("default: namespace = tidegate: {rule}")]
    );
    let named = shop("\"shop\"", "\"tidegate\"\nenvironment = \"production\"");
    assert_eq!(
        refuse(&named),
        [format!("tidegate.toml:1: namespace = \"tidegate\": {rule}")]
    );
    accept(&shop("\"shop\"", "\"shop\"\nenvironment = \"production\""));
}

#[test]
fn production_refuses_the_embedded_store() {
    let sources = with_set(Sources::default(), &["environment=production", "namespace=shop"]);
    assert_eq!(
        refuse(&sources),
        [
            "default: store.main.url = \"sqlite:tidegate.db\": must be declared in production: the embedded default \
          depends on the working directory"
        ]
    );
}

#[test]
fn problems_are_written_as_json_with_their_parts() {
    let problems = load(&shop("[outbox.orders]\n", "[outbox.orders]\nlanes = 65\n")).expect_err("accepted");
    assert_eq!(problems.count(), 1);
    assert_eq!(
        serde_json::to_value(&problems).expect("json"),
        serde_json::json!([{
            "path": "outbox.orders.lanes",
            "given": "65",
            "rule": "must be a power of two from 1 to 1024",
            "origin": { "from": "file", "file": "tidegate.toml", "line": 7 },
            "suggestion": "64"
        }])
    );
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let problems = refuse(&with_set(file(SHOP), &["log.level=\u{1b}[2J"]));
    assert_eq!(
        problems,
        [r#"--set: log.level = "\u{1b}[2J": must be error, warn, info, debug or trace"#]
    );
}

#[test]
fn a_malformed_flag_does_not_hide_other_problems() {
    let problems = refuse(&with_set(file("[sweep.daily]\n"), &["lanes"]));
    assert_eq!(
        problems,
        [
            "tidegate.toml:1: sweep.daily.store: is missing; must be the name of a declared store",
            "--set: must be section.key=value",
        ]
    );
}
