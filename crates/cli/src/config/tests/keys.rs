use std::collections::BTreeSet;
use std::path::PathBuf;

use super::{SHOP, accept, file};
use crate::config::keys::{ALL, Fallback, Kind, Place, place};
use crate::config::model::{Choice, Environment, Format, Level, Policy};
use crate::config::reference;

#[test]
fn the_committed_reference_is_the_one_rendered_from_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, reference()).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("docs/configuration.md");
    assert_eq!(
        committed,
        reference(),
        "render it again with BLESS=1 cargo test -p tidegate-cli --lib reference"
    );
}

#[test]
fn every_key_is_listed_once_and_documented_in_one_line() {
    let paths: BTreeSet<_> = ALL.iter().map(|key| key.path).collect();
    assert_eq!(paths.len(), ALL.len());
    for key in ALL {
        assert!(
            key.doc.ends_with('.') && !key.doc.contains(['\n', '|']),
            "{}",
            key.path
        );
    }
}

#[test]
fn a_complete_file_is_explained_key_by_key_as_the_table_lists_them() {
    let text = format!("{SHOP}[sweep.daily]\nstore = \"db\"\n[store.server]\nurl = \"postgres://db/shop\"\n");
    let explanation = accept(&file(&text)).explanation;
    let shown: BTreeSet<_> = explanation.iter().map(|value| value.doc).collect();
    let stands_alone = |kind: Kind| !matches!(kind, Kind::SecretFile | Kind::SecretVariable);
    for key in ALL.iter().filter(|key| stands_alone(key.kind)) {
        assert!(shown.contains(key.doc), "{} is never read", key.path);
    }
}

#[test]
fn every_choice_has_a_value_and_every_default_is_a_choice() {
    fn paired<T: Choice>() -> bool {
        T::NAMES.len() == T::ALL.len()
    }
    assert!(paired::<Environment>() && paired::<Policy>() && paired::<Level>() && paired::<Format>());
    for key in ALL {
        if let (Kind::Choice(names), Fallback::Text(text)) = (key.kind, key.fallback) {
            assert!(names.contains(&text), "{}", key.path);
        }
    }
}

#[test]
fn places_are_found_through_names_of_the_user() {
    let at = |path: &str| place(&path.split('.').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(at("outbox"), Place::Table);
    assert_eq!(at("outbox.any"), Place::Table);
    assert_eq!(at("outbox.any.lanes"), Place::Value);
    assert_eq!(at("store.any.url"), Place::Either);
    assert_eq!(at("outbox.any.lanes.deep"), Place::Unknown);
    assert_eq!(at("consumer.any.table.columns.any"), Place::Value);
}
