use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::TEXT_BYTES_MAX;
use super::{JSON, Redactor, text};

/// Pieces that the rules react to, mixed into otherwise random text.
const PIECES: &[&str] = &[
    "email",
    "name",
    "password",
    "host",
    "=",
    ":",
    "=>",
    " ",
    ", ",
    "'",
    "\"",
    "\\\"",
    "(",
    ")=(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "[redacted]",
    "[redacted:email]",
    "[redac",
    "joe@x.org",
    "@",
    "://",
    "4111 1111 1111 1111",
    "415-555-0123",
    "\n",
    "é",
    "value '",
    "string \"",
    "Bearer ",
    "eyJhbGciOi.a.b",
    "values (",
    "type uuid: \"",
    "-----BEGIN PRIVATE KEY-----",
    "5",
    "x",
];

fn messy() -> impl Strategy<Value = String> {
    let piece = prop_oneof![4 => prop::sample::select(PIECES).prop_map(str::to_owned), 1 => "\\PC{0,6}"];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        messy().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let members = prop::collection::btree_map(messy(), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().collect::<Value>()),
            inner.prop_map(|value| Value::from(value.to_string())),
        ]
    })
}

/// A number of 13 to 19 digits with a valid check digit, as an issuer would give out.
fn card() -> impl Strategy<Value = String> {
    "[3-9][0-9]{11,17}".prop_map(|digits| {
        let mut all: Vec<String> = (0..10).map(|check| format!("{digits}{check}")).collect();
        all.retain(|all| luhn_by_the_book(all));
        all.remove(0)
    })
}

/// Written independently of the code under test.
fn luhn_by_the_book(digits: &str) -> bool {
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(10)).rev().collect();
    let doubled = digits.iter().skip(1).step_by(2).map(|d| 2 * d / 10 + 2 * d % 10);
    (digits.iter().step_by(2).sum::<u32>() + doubled.sum::<u32>()) % 10 == 0
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_settle(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let redactor = Redactor::default();
        let once = redactor.redact_payload("", &bytes);
        prop_assert_eq!(redactor.redact_payload("", once.as_bytes()), once);
        let once = redactor.redact_text(&String::from_utf8_lossy(&bytes));
        prop_assert_eq!(redactor.redact_text(&once), once);
    }

    #[test]
    fn redacting_text_twice_changes_nothing(messy in messy(), pad in 0_usize..1100) {
        let once = text(&format!("{}{messy}", "y ".repeat(pad / 2)));
        prop_assert!(once.len() <= TEXT_BYTES_MAX);
        prop_assert_eq!(text(&once), once);
    }

    #[test]
    fn redacting_a_payload_twice_changes_nothing(value in json()) {
        let redactor = Redactor::default();
        let once = redactor.redact_payload(JSON, value.to_string().as_bytes());
        prop_assert_eq!(redactor.redact_payload(JSON, once.as_bytes()), once);
    }

    #[test]
    fn a_canary_under_a_sensitive_name_never_survives(
        name in prop::sample::select(&["email", "userPhone", "PASSWORD", "first-name", "card_no", "Aadhaar"][..]),
        around in json(),
        before in "[a-z]{0,8}",
    ) {
        let canary = format!("{before}Canary{before}");
        let body = json!({"a": [{ name: {"deep": [canary.clone()]} }, around], "b": json!({ name: canary }).to_string()});
        let shown = Redactor::default().redact_payload(JSON, body.to_string().as_bytes());
        prop_assert!(!shown.contains("Canary"), "{}", shown);
    }

    #[test]
    fn a_canary_after_a_sensitive_name_in_text_never_survives(
        name in prop::sample::select(&["email", "userPhone", "PASSWORD", "first name", "card_no", "Key (id)"][..]),
        form in 0_usize..6,
        tail in "[a-z ,.!?()']{0,20}",
    ) {
        let text_of = [
            format!("{name}=Canary{tail}"),
            format!("{name}: Canary{tail}Canary"),
            format!("{name}='Canary{tail}'"),
            format!("\"{name}\":\"{tail}Canary\""),
            format!("Key ({name})=({tail}Canary{tail}) already exists"),
            format!("string \"Canary{tail}\" under {name}"),
        ];
        let given = text_of.get(form).cloned().unwrap_or_default();
        // Only details hide the values of names that are not sensitive.
        prop_assume!(name != "Key (id)" || form >= 4);
        let shown = text(&given);
        prop_assert!(!shown.contains("Canary"), "{} -> {}", given, shown);
    }

    #[test]
    fn shapes_never_survive_in_any_surroundings(before in messy(), after in "[ ,;:)\\]\"'a-z]{0,10}") {
        for canary in ["zed.canary@mail.example", "eyJhbGciOiJ9.eyJjYW5hcnkiOjF9.c2ln", "27AAPFU0939F1ZV"] {
            let shown = text(&format!("{before}{canary}{after}"));
            prop_assert!(!shown.contains(canary), "{}", shown);
            let body = json!({ "x": format!("{before} {canary}{after}") }).to_string();
            let shown = Redactor::default().redact_payload(JSON, body.as_bytes());
            prop_assert!(!shown.contains(canary), "{}", shown);
        }
    }

    #[test]
    fn cards_never_survive_grouped_or_plain(card in card(), size in 3_usize..8, gap in "[ \\-]", next in "[0-9]{0,4}") {
        let chars: Vec<char> = card.chars().collect();
        let groups: Vec<String> = chars.chunks(size).map(|group| group.iter().collect()).collect();
        let grouped = groups.join(&gap);
        let shown = text(&format!("paid {next} {grouped} {next} with {card}."));
        prop_assert!(!shown.contains(&grouped) && !shown.contains(&card), "{}", shown);
        let shown = Redactor::default().redact_payload(JSON, format!("[{card}]").as_bytes());
        prop_assert_eq!(shown, r#"["[redacted:card]"]"#);
    }

    #[test]
    fn digits_that_fail_the_check_stay_visible(digits in "[3-9][0-9]{12,17}") {
        prop_assume!(!luhn_by_the_book(&digits));
        let plain = format!("order {digits} refused");
        prop_assert_eq!(text(&plain), plain);
    }
}
