use std::io::Write;

use super::{SHOP, accept, file, refuse, shop, with_environment, with_set};
use crate::config::Secret;
use crate::config::secret::mask;

fn shop_url(value: &str) -> String {
    SHOP.replace("\"sqlite:shop.db\"", value)
}

fn secret_file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

#[test]
fn a_secret_is_never_in_debug() {
    assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(***)");
    let loaded = accept(&file(&shop_url("\"sqlite:hunter2.db\"")));
    assert!(!format!("{:?}", loaded.config).contains("hunter2"));
}

#[test]
fn a_url_is_read_from_a_variable_and_only_its_name_is_shown() {
    let sources = with_environment(
        file(&shop_url("{ env = \"DB_URL\" }")),
        &[("DB_URL", "sqlite:hunter2.db")],
    );
    let loaded = accept(&sources);
    assert_eq!(loaded.config.store["db"].url.expose(), "sqlite:hunter2.db");
    let shown = loaded.explanation.get("store.db.url").expect("explained");
    assert_eq!(shown.value.as_deref(), Some("{ env = \"DB_URL\" }"));
    assert!(!format!("{loaded:?}{}", loaded.explanation).contains("hunter2"));
}

#[test]
fn a_url_is_read_from_a_file_without_its_line_end() {
    let secret = secret_file("sqlite:hunter2.db\r\n");
    let path = secret.path().display().to_string();
    let loaded = accept(&file(&shop_url(&format!("{{ file = {path:?} }}"))));
    assert_eq!(loaded.config.store["db"].url.expose(), "sqlite:hunter2.db");
    assert!(!loaded.explanation.to_string().contains("hunter2"));
}

#[test]
fn secrets_that_cannot_be_read_say_why() {
    let empty = secret_file("\n");
    let path = empty.path().display().to_string();
    let cases = [
        (
            "{ file = \"/no/such/secret\" }".to_owned(),
            r#"store.db.url.file = "/no/such/secret": cannot be read: No such file or directory (os error 2)"#.to_owned(),
        ),
        (format!("{{ file = {path:?} }}"), format!("store.db.url.file = {path:?}: names an empty file")),
        (
            "{ env = \"NOT_THERE\" }".to_owned(),
            r#"store.db.url.env = "NOT_THERE": names an environment variable that is not set"#.to_owned(),
        ),
        (
            "{ env = \"EMPTY\" }".to_owned(),
            r#"store.db.url.env = "EMPTY": names an empty environment variable"#.to_owned(),
        ),
        ("{}".to_owned(), "store.db.url: must have either file or env".to_owned()),
        (
            "{ envv = \"X\" }".to_owned(),
            "store.db.url.envv: is not a known key; known here: file, env; did you mean env?\n\
             store.db.url: must have either file or env"
                .to_owned(),
        ),
        (
            "{ env = \"FULL\", file = \"/dev/null\" }".to_owned(),
            r#"store.db.url.file = "/dev/null": names an empty file"#.to_owned(),
        ),
    ];
    for (value, expected) in cases {
        let sources = with_environment(file(&shop_url(&value)), &[("EMPTY", ""), ("FULL", "sqlite:a.db")]);
        let expected: Vec<_> = expected
            .lines()
            .map(|line| format!("tidegate.toml:4: {line}"))
            .collect();
        assert_eq!(refuse(&sources), expected);
    }
}

#[test]
fn a_secret_kept_in_two_places_of_one_layer_is_refused() {
    let secret = secret_file("sqlite:b.db");
    let value = format!(
        "{{ env = \"FULL\", file = {:?} }}",
        secret.path().display().to_string()
    );
    let sources = with_environment(file(&shop_url(&value)), &[("FULL", "sqlite:a.db")]);
    assert_eq!(
        refuse(&sources),
        ["tidegate.toml:4: store.db.url: must have either file or env, not both"]
    );
}

#[test]
fn a_later_layer_replaces_where_a_secret_is_kept() {
    let sources = with_environment(
        file(&shop_url("{ file = \"/no/such/secret\" }")),
        &[
            ("TIDEGATE__STORE__DB__URL__ENV", "DB_URL"),
            ("DB_URL", "sqlite:a.db"),
        ],
    );
    assert_eq!(accept(&sources).config.store["db"].url.expose(), "sqlite:a.db");
    let sources = with_set(sources, &["store.db.url=sqlite:b.db"]);
    assert_eq!(accept(&sources).config.store["db"].url.expose(), "sqlite:b.db");
}

#[test]
fn a_refused_secret_is_not_quoted() {
    let sources = with_environment(
        file(&shop_url("{ env = \"DB_URL\" }")),
        &[("DB_URL", "nats://app:hunter2@hub/shop")],
    );
    assert_eq!(
        refuse(&sources),
        [
            "tidegate.toml:4: store.db.url = { env = \"DB_URL\" }: nats: is not built into this binary; sqlite, postgres, postgresql, redis, rediss are"
        ]
    );
}

#[test]
fn a_url_under_the_wrong_key_is_masked_too() {
    let sources = shop("store = \"db\"", "store = \"postgres://app:hunter2@db/shop\"");
    assert_eq!(
        refuse(&sources),
        [
            r#"tidegate.toml:7: outbox.orders.store = "postgres://app:***@db/shop": is not a declared store; declared: db"#
        ]
    );
}

#[test]
fn masks_hide_every_credential_of_a_url() {
    for (url, masked) in [
        (
            "postgres://app:hunter2@db:5432/shop",
            "postgres://app:***@db:5432/shop",
        ),
        ("postgres://app@db/shop", "postgres://app@db/shop"),
        ("postgres://app:a@b/c?d@db/shop", "postgres://app:***@db/shop"),
        (
            "postgres://db/shop?user=app&password=hunter2",
            "postgres://db/shop?user=app&password=***",
        ),
        ("redis://:hunter2@cache", "redis://:***@cache"),
        ("nats://hunter2@hub", "nats://***@hub"),
        ("sqlite:tidegate.db", "sqlite:tidegate.db"),
        (
            "sqlite:a.db?cipher_key=hunter2&mode=ro",
            "sqlite:a.db?cipher_key=***&mode=ro",
        ),
        ("no url", "no url"),
    ] {
        assert_eq!(mask(url), masked);
    }
}
