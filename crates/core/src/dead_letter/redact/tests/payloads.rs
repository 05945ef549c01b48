use serde_json::json;

use super::super::names::{self, Class};
use super::{CARD, JSON, Options, Redactor, payload, with};

fn masked(name: &str) -> bool {
    payload(&json!({ name: "x" }))[name] == "[redacted]"
}

#[test]
fn sensitive_names_are_found_in_every_style() {
    for name in [
        "email",
        "Email",
        "e-mail",
        "eMail",
        "E_MAIL",
        "userEmail",
        "USER_EMAIL_2",
        "emails",
        "emailAddress",
        "firstName",
        "first_name",
        "firstname",
        "FirstName",
        "name",
        "fullName",
        "dateOfBirth",
        "dob",
        "SSN",
        "SSNs",
        "userSSN",
        "SSNNumber",
        "X-Api-Key",
        "apikey",
        "accessToken",
        "refresh_tokens",
        "PASSword",
        "pAsSwOrD",
        "client-secret",
        "card",
        "cardNumber",
        "CCNumber",
        "cvv2",
        "iban",
        "gstin",
        "ifscCode",
        "pan",
        "aadhaar_no",
        "postal_code",
        "homeAddress",
        "addressLine2",
        "phone_numbers",
        "ip",
        "hostname",
        "remote_addr",
        "users.email",
    ] {
        assert!(masked(name), "{name}");
    }
}

#[test]
fn names_that_only_contain_the_letters_stay_visible() {
    for name in [
        "tokenizer",
        "filename",
        "file_name",
        "fileName",
        "topicName",
        "event_name",
        "emailed_at_count",
        "expand",
        "company",
        "spin",
        "passenger_count",
        "discard",
        "cardinality",
        "secretary",
        "id",
        "key",
        "entity_id",
        "version",
        "topic",
        "amount",
        "ship",
        "ghost",
        "pinned",
        "created_at",
        "namespace",
    ] {
        assert!(!masked(name), "{name}");
    }
}

#[test]
fn whole_subtrees_under_a_sensitive_name_are_masked() {
    let shown = payload(&json!({"address": {"flat": 3}, "tokens": ["a"], "pin": 1234, "n": {"email": true}}));
    let mask = "[redacted]";
    assert_eq!(
        shown,
        json!({"address": mask, "tokens": mask, "pin": mask, "n": {"email": mask}})
    );
}

#[test]
fn absence_and_measures_of_sensitive_fields_are_visible() {
    let shown = json!({"email": null, "email_count": 3, "phoneVerified": true});
    assert_eq!(payload(&shown), shown);
    let hidden = payload(&json!({"phone_count": 4_155_550_123_u64, "password_length": "hunter2"}));
    assert_eq!(
        hidden,
        json!({"phone_count": "[redacted]", "password_length": "[redacted]"})
    );
}

#[test]
fn values_are_masked_under_any_name() {
    let shown =
        payload(&json!({"note": "call 415-555-0123", "ref": "HDFC0001234", "list": ["joe@example.com"]}));
    let expected =
        json!({"note": "call [redacted:phone]", "ref": "[redacted:ifsc]", "list": ["[redacted:email]"]});
    assert_eq!(shown, expected);
}

#[test]
fn card_numbers_are_masked_as_json_numbers_too() {
    for number in [
        CARD,
        "-4111111111111111",
        "4111111111111111.0",
        "4.111111111111111e15",
        "378282246310005",
    ] {
        let body = format!(r#"{{"ref":{number}}}"#);
        let shown = Redactor::default().redact_payload(JSON, body.as_bytes());
        assert_eq!(shown, r#"{"ref":"[redacted:card]"}"#, "{number}");
    }
}

#[test]
fn ordinary_numbers_and_ids_stay_visible() {
    let plain = json!({
        "order": 1_234_567_890_123_456_u64, "occurred_at_ms": 1_733_011_099_129_u64, "price": 19.99, "ok": true,
        "event_id": "0192d3a4-1234-7678-9012-345678901234", "big": u64::MAX, "at": "2026-11-30T23:38:19Z", "sku": "AB-12-34",
    });
    assert_eq!(payload(&plain), plain);
}

#[test]
fn member_names_that_are_personal_are_masked_and_kept_apart() {
    let shown = payload(&json!({"joe@example.com": {"role": "a"}, "ann@example.com": {"role": "b"}}));
    assert_eq!(
        shown,
        json!({"[redacted:email]": {"role": "a"}, "[redacted:email]#2": {"role": "b"}})
    );
}

#[test]
fn json_inside_strings_is_redacted_as_json() {
    let inner = json!({"surname": "Canary", "n": 1}).to_string();
    let shown = payload(&json!({ "body": inner }));
    assert_eq!(shown, json!({"body": r#"{"surname":"[redacted]","n":1}"#}));
}

#[test]
fn what_is_not_json_is_never_shown() {
    let redactor = Redactor::default();
    for (content_type, bytes) in [
        (JSON, &b"canary"[..]),
        (JSON, b"{\"a\":\"canary\""),
        (JSON, b"{\"a\":1} canary"),
        (JSON, b"\"canary\xff\""),
        (JSON, b""),
        ("text/plain", b"\"canary\""),
        ("application/octet-stream", b"{}"),
    ] {
        let expected = format!("[redacted: {} bytes, not JSON]", bytes.len());
        assert_eq!(redactor.redact_payload(content_type, bytes), expected);
        assert_eq!(
            redactor.redact_payload(content_type, expected.as_bytes()),
            expected
        );
    }
}

#[test]
fn json_content_types_are_recognised() {
    for content_type in [
        "",
        JSON,
        "Application/JSON; charset=utf-8",
        "text/json",
        "application/cloudevents+json",
    ] {
        assert_eq!(
            Redactor::default().redact_payload(content_type, b"{\"a\": 1}"),
            r#"{"a":1}"#
        );
    }
}

#[test]
fn nesting_too_deep_is_never_shown() {
    for depth in [65, 100, 5000] {
        let body = format!("{}\"canary\"{}", "[".repeat(depth), "]".repeat(depth));
        let shown = Redactor::default().redact_payload(JSON, body.as_bytes());
        assert_eq!(shown, format!("[redacted: {} bytes, not JSON]", body.len()));
    }
}

#[test]
fn strings_in_strings_are_followed_to_the_innermost() {
    let nested = (0..8).fold(json!({"pin": "canary"}), |inner, _| json!([inner.to_string()]));
    let shown = payload(&nested).to_string();
    assert!(shown.contains("pin") && !shown.contains("canary"), "{shown}");
}

#[test]
fn extra_fields_match_word_wise() {
    let options = Options {
        extra_fields: vec!["loyalty_id".into()],
        ..Options::default()
    };
    let shown = with(options, &json!({"memberLoyaltyId": 7, "loyalty": 1}));
    assert_eq!(shown, json!({"memberLoyaltyId": "[redacted]", "loyalty": 1}));
}

#[test]
fn extra_paths_mask_subtrees_in_both_notations() {
    let body = json!({"order": {"lines": [{"gift": "a", "sku": "b"}], "a/b": {"c": 1}}});
    for path in [
        "order.lines.*.gift",
        "order.lines.gift",
        "/order/lines/0/gift",
        "/Order/*/0/gift",
        "*.*.gift",
    ] {
        let options = Options {
            extra_paths: vec![path.into()],
            ..Options::default()
        };
        let shown = with(options, &body);
        assert_eq!(
            shown["order"]["lines"][0],
            json!({"gift": "[redacted]", "sku": "b"}),
            "{path}"
        );
        assert_eq!(shown["order"]["a/b"], json!({"c": 1}), "{path}");
    }
    let options = Options {
        extra_paths: vec!["/order/a~1b".into()],
        ..Options::default()
    };
    assert_eq!(with(options, &body)["order"]["a/b"], "[redacted]");
}

#[test]
fn allowed_paths_lift_the_name_rule_only() {
    let allow = vec!["product.name".to_owned()];
    let body = json!({"product": {"name": "Chair"}, "name": "Joe"});
    let shown = with(
        Options {
            allow_paths: allow.clone(),
            ..Options::default()
        },
        &body,
    );
    assert_eq!(shown, json!({"product": {"name": "Chair"}, "name": "[redacted]"}));

    let shown = with(
        Options {
            allow_paths: allow.clone(),
            ..Options::default()
        },
        &json!({"product": {"name": "joe@example.com"}}),
    );
    assert_eq!(shown["product"]["name"], "[redacted:email]");

    let both = Options {
        extra_paths: allow.clone(),
        allow_paths: allow,
        ..Options::default()
    };
    assert_eq!(with(both, &body)["product"]["name"], "[redacted]");
}

#[test]
fn own_hosts_are_shown_under_network_names_only() {
    let options = Options {
        exempt_hosts: vec!["App-1.".into(), "::1".into()],
        ..Options::default()
    };
    let body =
        json!({"host": "app-1:80", "ips": ["[::1]:80", "9.9.9.9"], "addr": "app-10", "email": "app-1"});
    let mask = "[redacted]";
    let expected = json!({"host": "app-1:80", "ips": ["[::1]:80", mask], "addr": mask, "email": mask});
    assert_eq!(with(options, &body), expected);
}

#[test]
fn options_that_match_nothing_are_all_named() {
    let options = Options {
        extra_fields: vec!["--".into()],
        extra_paths: vec!["a..b".into()],
        allow_paths: vec![String::new()],
        exempt_hosts: vec!["two words".into()],
    };
    assert_eq!(Redactor::new(options).unwrap_err().problems().len(), 4);
}

#[test]
fn masks_in_names_are_no_words() {
    assert_eq!(
        names::words("[redacted:email]#2 httpServer2Port"),
        ["2", "http", "server", "2", "port"]
    );
    assert_eq!(names::Names::default().class("email_host"), Some(Class::Person));
}
