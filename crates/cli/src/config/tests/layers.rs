use super::{SHOP, accept, file, refuse, shop, with_environment, with_set};
use crate::config::{Config, Origin, Sources};

fn lanes(sources: &Sources) -> (u16, Origin) {
    let loaded = accept(sources);
    let effective = loaded.explanation.get("outbox.orders.lanes").expect("explained");
    (loaded.config.outbox["orders"].lanes, effective.origin.clone())
}

fn shop_with_lanes() -> Sources {
    shop("[outbox.orders]\n", "[outbox.orders]\nlanes = 8\n")
}

const VARIABLE: &str = "TIDEGATE__OUTBOX__ORDERS__LANES";

#[test]
fn without_a_file_the_embedded_declaration_applies() {
    assert_eq!(accept(&Sources::default()).config, Config::default_embedded());
}

#[test]
fn a_value_of_the_file_wins_over_the_default() {
    assert_eq!(lanes(&file(SHOP)), (64, Origin::Default));
    assert_eq!(
        lanes(&shop_with_lanes()),
        (
            8,
            Origin::File {
                file: "tidegate.toml".to_owned(),
                line: 7
            }
        )
    );
}

#[test]
fn a_variable_wins_over_the_file() {
    let sources = with_environment(shop_with_lanes(), &[(VARIABLE, "16")]);
    assert_eq!(
        lanes(&sources),
        (
            16,
            Origin::Environment {
                variable: VARIABLE.to_owned()
            }
        )
    );
}

#[test]
fn a_flag_wins_over_a_variable_and_the_last_flag_over_earlier_ones() {
    let sources = with_environment(shop_with_lanes(), &[(VARIABLE, "16")]);
    let sources = with_set(sources, &["outbox.orders.lanes=32", "outbox.orders.lanes=128"]);
    assert_eq!(lanes(&sources), (128, Origin::Set));
}

#[test]
fn layers_replace_single_values_and_keep_their_neighbours() {
    let sources = with_environment(
        file(SHOP),
        &[("TIDEGATE__CONSUMER__BILLING__TABLE__COLUMNS__PAID", "paid_at")],
    );
    let consumer = &accept(&sources).config.consumer["billing"];
    let columns: Vec<_> = consumer
        .table
        .columns
        .iter()
        .map(|(column, field)| format!("{column}={field}"))
        .collect();
    assert_eq!(columns, ["id=id", "paid=paid_at", "total=total"]);
}

#[test]
fn a_variable_finds_a_declared_name_with_dashes_or_underscores() {
    let text = SHOP.replace("consumer.billing", "consumer.bill-run_2");
    for variable in [
        "TIDEGATE__CONSUMER__BILL_RUN_2__BATCH_MAX",
        "TIDEGATE__CONSUMER__BILL-RUN_2__BATCH_MAX",
    ] {
        let sources = with_environment(file(&text), &[(variable, "7")]);
        assert_eq!(
            accept(&sources).config.consumer["bill-run_2"].batch_max,
            7,
            "{variable}"
        );
    }
}

#[test]
fn a_variable_prefers_the_exact_name_and_refuses_to_guess_between_two() {
    let two = format!("{SHOP}[stream.a-b_c]\nstore = \"db\"\n[stream.a_b-c]\nstore = \"db\"\n");
    let sources = with_environment(file(&two), &[("TIDEGATE__STREAM__A_B_C__RETAIN", "1d")]);
    assert_eq!(
        refuse(&sources),
        [
            "environment TIDEGATE__STREAM__A_B_C__RETAIN: stream.a_b_c.retain: may mean a-b_c or a_b-c; use --set instead"
        ]
    );
    let three = format!("{two}[stream.a_b_c]\nstore = \"db\"\n");
    let sources = with_environment(file(&three), &[("TIDEGATE__STREAM__A_B_C__RETAIN", "1d")]);
    assert_eq!(accept(&sources).config.stream["a_b_c"].retain.as_secs(), 86_400);
}

#[test]
fn a_variable_finds_a_column_written_in_upper_case() {
    let sources = shop("total = \"total\"", "Total = \"total\"");
    let sources = with_environment(
        sources,
        &[("TIDEGATE__CONSUMER__BILLING__TABLE__COLUMNS__TOTAL", "sum")],
    );
    assert_eq!(
        accept(&sources).config.consumer["billing"].table.columns["Total"],
        "sum"
    );
}

#[test]
fn variables_of_other_programs_are_left_alone() {
    let sources = with_environment(
        file(SHOP),
        &[
            ("TIDEGATE_LANES", "x"),
            ("PATH", "/bin"),
            ("tidegate__lanes", "x"),
        ],
    );
    accept(&sources);
}

#[test]
fn variables_and_flags_can_declare_whole_sections() {
    let sources = with_environment(Sources::default(), &[("TIDEGATE__SWEEP__DAILY__STORE", "main")]);
    let sources = with_set(sources, &["sweep.daily.every=24h", "outbox.main.archive=1d"]);
    let config = accept(&sources).config;
    assert_eq!(config.sweep["daily"].every.as_secs(), 86_400);
    assert_eq!(
        config.outbox["main"].archive.map(|archive| archive.as_secs()),
        Some(86_400)
    );
}

#[test]
fn a_malformed_variable_or_flag_is_a_problem() {
    let sources = with_environment(file(SHOP), &[("TIDEGATE__HTTP__", "x")]);
    let sources = with_set(sources, &["lanes", "http..listen=x"]);
    assert_eq!(
        refuse(&sources),
        [
            "environment TIDEGATE__HTTP__: http.\"\": has an empty level; write TIDEGATE__SECTION__KEY",
            "--set: must be section.key=value",
            "--set: http..listen: has an empty level",
        ]
    );
}

#[test]
fn process_sources_hold_the_file_and_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.toml");
    std::fs::write(&path, SHOP).expect("written");
    let sources = Sources::read(Some(&path), vec!["log.level=debug".to_owned()]).expect("read");
    assert_eq!(sources.file.as_ref().map(|file| file.text.as_str()), Some(SHOP));
    assert!(sources.environment.contains_key("PATH"));
    assert!(Sources::read(Some(&folder.path().join("none.toml")), Vec::new()).is_err());
}
