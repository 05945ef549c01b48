use super::super::{MASK, Redacted, TEXT_BYTES_MAX, luhn, values::Values};
use super::{CARD, Options, Redactor, text};

#[test]
fn built_in_patterns_compile() {
    assert!(Values::get().is_some());
    assert_eq!(text("nothing to hide"), "nothing to hide");
}

#[test]
fn each_sensitive_shape_is_masked_with_its_kind() {
    for (value, kind) in [
        ("joe.o'brien+x@mail.example.co.uk", "email"),
        ("joe%40example.com", "email"),
        ("jörg@exämple.de", "email"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "jwt"),
        ("sk_live_51HCANARYTOKEN", "token"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "token"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "token"),
        ("xoxb-17653672481-19874698323", "token"),
        ("AKIAIOSFODNN7EXAMPLE", "token"),
        ("123-45-6789", "ssn"),
        ("+1 (415) 555-0123", "phone"),
        ("+919876543210", "phone"),
        ("(415) 555-0123", "phone"),
        ("415-555-0123", "phone"),
        ("98765 43210", "phone"),
        ("27AAPFU0939F1ZV", "gstin"),
        ("AAPFU0939F", "pan"),
        ("HDFC0001234", "ifsc"),
        ("4111111111111111", "card"),
        ("4111 1111 1111 1111", "card"),
        ("4111-1111-1111-1111", "card"),
        ("3782 822463 10005", "card"),
        ("0004111111111111111", "card"),
        ("6304000000000000000", "card"),
    ] {
        assert_eq!(
            text(&format!("refused {value}, sorry")),
            format!("refused [redacted:{kind}], sorry")
        );
    }
}

#[test]
fn ordinary_identifiers_and_times_stay_visible() {
    for plain in [
        "event 0192d3a4-1234-5678-9012-345678901234 refused",
        "event 41111111-1111-1111-8111-111111111111 refused",
        "order 1234567890123456 refused",
        "order 4111 1111 1111 1112 refused",
        "at 1733011099123 ms, entry 1733011099123-0",
        "2026-11-30T23:38:19.123456Z lag 00:00:05",
        "peer closed 10.20.30.40:5432 after 30 s",
        "crate tidegate-core@0.1.0 in tokio::sync::token::Kind: closed",
        "tokenizer: unexpected end; filename: a.json; topic_name: orders; table name: users",
        "failed to lookup address information: Name or service not known",
        "null value in column \"email\" of relation \"users\" violates not-null constraint",
        "duplicate key value violates unique constraint \"users_email_key\"",
        "UNIQUE constraint failed: users.email",
        "UNIQUE constraint failed: index pk_customers_by_country",
        "missing field `email` at line 1 column 20",
    ] {
        assert_eq!(text(plain), plain);
    }
}

#[test]
fn values_of_sensitive_names_are_masked_and_their_neighbours_kept() {
    for (given, shown) in [
        ("password=hunter2 retries=3", "password=[redacted] retries=3"),
        ("first name: John Smith; id: 5", "first name: [redacted]; id: 5"),
        ("date of birth: 1 May 1980", "date of birth: [redacted]"),
        ("api key = abc def", "api key = [redacted]"),
        ("address: 12 Main St, Springfield", "address: [redacted]"),
        (r#"{"apiKey":"a\"b","n":1}"#, r#"{"apiKey":"[redacted]","n":1}"#),
        (
            r#"body "{\"pin\":\"0\",\"n\":1}""#,
            r#"body "{\"pin\":\"[redacted]\",\"n\":1}""#,
        ),
        ("secret='O'Brien' id=5", "secret='[redacted]' id=5"),
        ("/cb?token=abc&x=1", "/cb?token=[redacted]&x=1"),
        ("tokens: [a, [b: c]], id: 5", "tokens: [redacted], id: 5"),
        (
            "email \"joe at home\" is invalid",
            "email \"[redacted]\" is invalid",
        ),
        ("surname 'unclosed", "surname '[redacted]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: [redacted]"),
        ("sent Bearer abcdefgh.ijk", "sent Bearer [redacted:token]"),
        (
            "postgres://app:p@ss@db:5432/x",
            "postgres://[redacted:credentials]@db:5432/x",
        ),
    ] {
        assert_eq!(text(given), shown);
    }
}

#[test]
fn row_values_in_driver_messages_are_lost_and_the_message_kept() {
    for (given, shown) in [
        (
            "Key (email)=(x) already exists.",
            "Key (email)=([redacted]) already exists.",
        ),
        (
            "Key (lower(a), b)=(x), y) already exists.",
            "Key (lower(a), b)=([redacted]) already exists.",
        ),
        (
            "Key (\"my note\")=(a: b) is not present",
            "Key (\"my note\")=([redacted]) is not present",
        ),
        (
            "Failing row contains (1, Joe, null).",
            "Failing row contains ([redacted]).",
        ),
        (
            "Duplicate entry 'joe' for key 'users.k'",
            "Duplicate entry '[redacted]' for key 'users.k'",
        ),
        (
            "invalid input syntax for type uuid: \"joe\"",
            "invalid input syntax for type uuid: \"[redacted]\"",
        ),
        (
            "invalid type: string \"joe\", expected u64",
            "invalid type: string \"[redacted]\", expected u64",
        ),
        (
            "parameters: $1 = 'joe', $2 = '5'",
            "parameters: $1 = '[redacted]', $2 = '[redacted]'",
        ),
        (
            "at INSERT INTO u VALUES ('joe', 5)",
            "at INSERT INTO u VALUES ([redacted])",
        ),
    ] {
        assert_eq!(text(given), shown);
    }
}

#[test]
fn own_hosts_are_shown_and_others_masked() {
    let own = Options {
        exempt_hosts: vec!["db-1.internal".into(), "10.0.0.5".into()],
        ..Options::default()
    };
    let redactor = Redactor::new(own).unwrap();
    assert_eq!(
        redactor.redact_text("host=DB-1.internal:5432 down"),
        "host=DB-1.internal:5432 down"
    );
    assert_eq!(redactor.redact_text("ip: 10.0.0.5"), "ip: 10.0.0.5");
    assert_eq!(
        redactor.redact_text("client_ip=10.0.0.55 n=1"),
        "client_ip=[redacted] n=1"
    );
}

#[test]
fn long_text_is_cut_on_a_char_boundary_after_redaction() {
    for pad in 1000..TEXT_BYTES_MAX + 4 {
        let shown = text(&format!("{}é {CARD} é{}", "x".repeat(pad), "é".repeat(40)));
        assert!(
            shown.len() <= TEXT_BYTES_MAX && !shown.contains("4111"),
            "{shown}"
        );
        assert_eq!(text(&shown), shown);
    }
}

#[test]
fn text_too_long_to_examine_is_not_shown() {
    assert_eq!(text(&"x ".repeat(200_000)), MASK);
}

#[test]
fn luhn_rejects_wrong_lengths_and_times() {
    assert!(luhn::is_card(CARD.as_bytes()));
    for digits in [
        "411111111111",
        "41111111111111111111",
        "0000000000000000",
        "1733011099129",
        "1",
    ] {
        assert!(!luhn::is_card(digits.as_bytes()), "{digits}");
    }
}

#[test]
fn redacted_shows_exactly_what_the_redactor_made() {
    let made = Redacted::text(&Redactor::default(), "email: joe");
    assert_eq!(
        (made.as_str(), made.to_string()),
        ("email: [redacted]", "email: [redacted]".to_owned())
    );
}
