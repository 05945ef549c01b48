//! Reads the declared fields of a payload and passes over the rest unparsed, however deep that is nested.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::inbox::Failure;

use super::{Cell, Column, Numbers, decode};

/// Levels of lists and objects in a value that is stored: what JSON readers take.
const DEPTH_MAX: usize = 127;

/// The values of these fields of an object, unparsed. Of a field that is there twice, the last.
pub(super) fn fields<'p>(payload: &'p [u8], names: &[&str]) -> serde_json::Result<Vec<Option<&'p RawValue>>> {
    let mut json = serde_json::Deserializer::from_slice(payload);
    let found = json.deserialize_map(Fields(names))?;
    json.end()?;
    Ok(found)
}

struct Fields<'n>(&'n [&'n str]);

impl<'p> Visitor<'p> for Fields<'_> {
    type Value = Vec<Option<&'p RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'p>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.len()];
        while let Some(place) = map.next_key_seed(Place(self.0))? {
            match place {
                Some(place) => found[place] = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// The place of a name in the list.
struct Place<'n>(&'n [&'n str]);

impl<'p> DeserializeSeed<'p> for Place<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'p>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Place<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == name))
    }
}

impl Column {
    /// The field of the outermost object that the value is in.
    pub(super) fn root(&self) -> &str {
        self.field.split('.').next().unwrap_or_default()
    }

    /// What to store, given the field that the value is in.
    pub(super) fn value(&self, root: Option<&RawValue>, numbers: Numbers) -> Result<Cell, Failure> {
        let mut steps = self.field.split('.').skip(1);
        let found = root.and_then(|root| steps.try_fold(root, inside));
        match found {
            Some(value) => self.storable(value.get(), numbers),
            None if self.optional => Ok(Cell::Null),
            None => Err(self.refused("missing", "is missing")),
        }
    }

    /// Databases hold texts without NUL.
    fn storable(&self, raw: &str, numbers: Numbers) -> Result<Cell, Failure> {
        match raw.as_bytes().first() {
            Some(b'n') => Ok(Cell::Null),
            Some(b't') => Ok(Cell::Bool(true)),
            Some(b'f') => Ok(Cell::Bool(false)),
            Some(b'"') => self.text(raw),
            Some(b'{' | b'[') => {
                let text = compact(raw)
                    .ok_or_else(|| self.refused("too deep", "is nested deeper than 127 levels"))?;
                Ok(Cell::Json(text))
            }
            _ => self.number(raw, numbers),
        }
    }

    fn text(&self, raw: &str) -> Result<Cell, Failure> {
        let text: String =
            serde_json::from_str(raw).map_err(|_| self.refused("no text", "holds half a surrogate pair"))?;
        if text.contains('\0') {
            return Err(self.refused("NUL", "has a NUL character"));
        }
        Ok(Cell::Text(text))
    }

    fn number(&self, raw: &str, numbers: Numbers) -> Result<Cell, Failure> {
        if let Ok(whole) = raw.parse() {
            return Ok(Cell::Integer(whole));
        }
        let number = Cell::Number(raw.to_owned());
        if numbers == Numbers::Any {
            return Ok(number);
        }
        if !raw.contains(['.', 'e', 'E']) {
            return Err(self.refused("too large", "is an integer beyond 64 bits with a sign"));
        }
        let real: serde_json::Result<f64> = serde_json::from_str(raw);
        real.map(|_| number)
            .map_err(|_| self.refused("too large", "is a number beyond 64-bit floats"))
    }

    fn refused(&self, what: &str, how: &str) -> Failure {
        let field = &self.field;
        let fingerprint = match what {
            "missing" => format!("missing {field}"),
            what => format!("{what} in {field}"),
        };
        decode(fingerprint, format!("the field {field} {how}"))
    }
}

/// One step into an object; nothing is inside of anything else.
fn inside<'p>(value: &'p RawValue, step: &str) -> Option<&'p RawValue> {
    let object = value.get().starts_with('{');
    object
        .then(|| fields(value.get().as_bytes(), &[step]).ok()?.pop()?)
        .flatten()
}

/// Without the white space between tokens; `None` for what is nested too deep.
fn compact(json: &str) -> Option<String> {
    let mut out = String::with_capacity(json.len());
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for c in json.chars() {
        match c {
            _ if quoted => {
                quoted = escaped || c != '"';
                escaped = c == '\\' && !escaped;
            }
            '"' => quoted = true,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            c if c.is_ascii_whitespace() => continue,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return None;
        }
        out.push(c);
    }
    Some(out)
}
