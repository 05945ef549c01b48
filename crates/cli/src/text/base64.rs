//! Base64 with padding (RFC 4648), for payloads that are not text.

use std::fmt::Write as _;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Four characters for each three bytes.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let symbol = if i > chunk.len() {
                '='
            } else {
                symbol(bits >> (18 - 6 * i))
            };
            // Writing to a string cannot fail.
            let _ = text.write_char(symbol);
        }
    }
    text
}

fn symbol(bits: u32) -> char {
    char::from(ALPHABET[(bits & 63) as usize])
}

/// The bytes, or none when the text is anything but padded base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|b| **b == b'=').count();
    if padding > 2 {
        return None;
    }
    let symbols = &text[..text.len() - padding];
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in symbols.chunks(4) {
        let mut bits = 0_u32;
        for i in 0..4 {
            bits = bits << 6 | chunk.get(i).map_or(Some(0), |s| value(*s))?;
        }
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

fn value(symbol: u8) -> Option<u32> {
    let at = ALPHABET.iter().position(|s| *s == symbol)?;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vectors_of_the_rfc() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["Zg", "Zg=", "Z===", "Zm9v!A==", "Zm 9"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
