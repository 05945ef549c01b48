use super::{SHOP, accept, file, with_environment, with_set};
use crate::config::{Origin, Sources};

#[test]
fn the_embedded_declaration_is_explained_in_aligned_text() {
    let text = accept(&Sources::default()).explanation.to_string();
    let rows: Vec<_> = text
        .lines()
        .map(|line| line.split("  default  ").next().unwrap_or(line).trim_end())
        .collect();
    assert_eq!(
        rows,
        [
            "environment          development",
            "namespace            tidegate",
            "store.main.url       sqlite:tidegate.db",
            "outbox.main.store    main",
            "outbox.main.stream   main",
            "outbox.main.lanes    64",
            "outbox.main.archive  (unset)",
            "outbox.main.alarm    24h",
            "outbox.main.ttl      10s",
            "stream.main.store    main",
            "stream.main.retain   7d",
            "http.listen          127.0.0.1:7070",
            "drain.timeout        30s",
            "log.level            info",
            "log.format           text",
        ]
    );
}

#[test]
fn each_line_ends_with_the_documentation_of_its_key() {
    let text = accept(&Sources::default()).explanation.to_string();
    let line = text
        .lines()
        .find(|line| line.starts_with("outbox.main.stream"))
        .expect("explained");
    assert_eq!(
        line,
        "outbox.main.stream   main                default  Stream that the events are published to."
    );
}

#[test]
fn every_value_says_which_layer_it_came_from() {
    let sources = with_environment(file(SHOP), &[("TIDEGATE__LOG__LEVEL", "debug")]);
    let explanation = accept(&with_set(sources, &["log.format=json"])).explanation;
    let origin = |path: &str| explanation.get(path).map(|value| value.origin.to_string());
    assert_eq!(origin("namespace").as_deref(), Some("tidegate.toml:1"));
    assert_eq!(
        origin("consumer.billing.table.columns.id").as_deref(),
        Some("tidegate.toml:17")
    );
    assert_eq!(
        origin("log.level").as_deref(),
        Some("environment TIDEGATE__LOG__LEVEL")
    );
    assert_eq!(origin("log.format").as_deref(), Some("--set"));
    assert_eq!(origin("http.listen").as_deref(), Some("default"));
}

#[test]
fn values_are_shown_as_they_were_written() {
    let explanation = accept(&with_set(file(SHOP), &["outbox.orders.archive=48h"])).explanation;
    let archive = explanation.get("outbox.orders.archive").expect("explained");
    assert_eq!(
        (archive.value.as_deref(), &archive.origin),
        (Some("48h"), &Origin::Set)
    );
}

#[test]
fn json_holds_path_value_origin_and_documentation() {
    let explanation = accept(&file(SHOP)).explanation;
    let json: serde_json::Value = serde_json::from_str(&explanation.to_json().expect("json")).expect("json");
    assert_eq!(
        json[1],
        serde_json::json!({
            "path": "namespace",
            "value": "shop",
            "origin": { "from": "file", "file": "tidegate.toml", "line": 1 },
            "doc": "Prefix of tables, keys and subjects. Give each deployment its own; the default is refused in production."
        })
    );
    let archive = json
        .as_array()
        .and_then(|all| all.iter().find(|one| one["path"] == "outbox.orders.archive"));
    assert_eq!(
        archive.map(|one| (&one["value"], &one["origin"])),
        Some((
            &serde_json::Value::Null,
            &serde_json::json!({ "from": "default" })
        ))
    );
}
