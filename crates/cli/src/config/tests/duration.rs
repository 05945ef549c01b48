use std::time::Duration;

use proptest::prelude::*;

use crate::config::duration::{format, parse};
use crate::config::validate::{Renewal, ttl};

fn refusal(text: &str) -> (String, Option<String>) {
    let refusal = parse(text).expect_err("accepted");
    (refusal.rule, refusal.suggestion)
}

#[test]
fn whole_numbers_with_units_are_read() {
    for (text, millis) in [
        ("500ms", 500),
        ("10s", 10_000),
        ("1m 30s", 90_000),
        ("1m30s", 90_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        ("1d 2h 3m 4s 5ms", 93_784_005),
        (" 10 s ", 10_000),
        ("0s", 0),
    ] {
        assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
    }
}

#[test]
fn bare_numbers_are_refused_with_every_unit_to_choose() {
    for text in ["10", "0", "1.5", "-3", "1_000"] {
        let expected = format!("needs a unit: write {text}ms, {text}s, {text}m, {text}h or {text}d");
        assert_eq!(refusal(text), (expected, None));
    }
}

#[test]
fn fractions_signs_and_rubbish_are_refused() {
    for text in ["", " ", "1.5s", "-1s", "s", "1s,", "ten seconds", "1s 5", "٣s"] {
        let rule = "must be a duration in whole numbers, such as 500ms, 10s, 1m 30s, 24h or 7d";
        assert_eq!(refusal(text), (rule.to_owned(), None), "{text:?}");
    }
}

#[test]
fn spelled_out_units_are_refused_with_the_short_one() {
    let rule = r#"has an unknown unit "minutes"; units are ms, s, m, h and d"#;
    assert_eq!(refusal("5minutes"), (rule.to_owned(), Some("5m".to_owned())));
    let rule = r#"has an unknown unit "w"; units are ms, s, m, h and d"#;
    assert_eq!(refusal("2w"), (rule.to_owned(), None));
}

#[test]
fn units_out_of_order_or_twice_are_refused() {
    for text in ["30s 1m", "1s 1s"] {
        assert_eq!(
            refusal(text).0,
            "must name each unit once, from large to small, such as 1m 30s"
        );
    }
}

#[test]
fn lengths_beyond_counting_are_refused() {
    for text in [
        "99999999999999999999s",
        "18446744073709551615d",
        "18446744073709551615ms 1ms",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert_eq!(
        refusal("213503982335d 1ms").0,
        "is longer than any duration that can be counted"
    );
}

proptest! {
    #[test]
    fn every_duration_reads_back_as_it_was_written(millis in any::<u64>()) {
        let duration = Duration::from_millis(millis);
        prop_assert_eq!(parse(&format(duration)), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_parser_fail_otherwise_than_by_refusal(text in "\\PC{0,24}") {
        let _ = parse(&text);
    }

    #[test]
    fn every_ttl_from_a_second_to_an_hour_leaves_room_for_a_second_attempt(millis in 1_000_u64..=3_600_000) {
        let duration = Duration::from_millis(millis);
        prop_assert!(Renewal::of(duration).fits());
        prop_assert_eq!(ttl(&format(duration)), Ok(duration));
    }
}

#[test]
fn a_ttl_below_three_quarters_of_a_second_leaves_no_room_for_a_second_attempt() {
    assert!(Renewal::of(Duration::from_millis(751)).fits());
    assert!(!Renewal::of(Duration::from_millis(749)).fits());
}
