//! Reads the declared fields of a payload and passes over the rest unparsed, however deep that is nested.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::inbox::Failure;

use super::{Column, decode};

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
    pub(super) fn value(&self, root: Option<&RawValue>) -> Result<Value, Failure> {
        let mut steps = self.field.split('.').skip(1);
        let found = root.and_then(|root| steps.try_fold(root, inside));
        match found {
            Some(value) => self.storable(value.get()),
            None if self.optional => Ok(Value::Null),
            None => Err(self.refused("missing", "is missing")),
        }
    }

    /// Databases hold 64-bit integers and texts without NUL. Lists and objects are stored as their text.
    fn storable(&self, raw: &str) -> Result<Value, Failure> {
        match raw.as_bytes().first() {
            Some(b'n') => Ok(Value::Null),
            Some(b't') => Ok(Value::Bool(true)),
            Some(b'f') => Ok(Value::Bool(false)),
            Some(b'"') => self.text(raw),
            Some(b'{' | b'[') => {
                let text = compact(raw)
                    .ok_or_else(|| self.refused("too deep", "is nested deeper than 127 levels"))?;
                Ok(Value::String(text))
            }
            _ => self.number(raw),
        }
    }

    fn text(&self, raw: &str) -> Result<Value, Failure> {
        let text: String =
            serde_json::from_str(raw).map_err(|_| self.refused("no text", "holds half a surrogate pair"))?;
        if text.contains('\0') {
            return Err(self.refused("NUL", "has a NUL character"));
        }
        Ok(Value::String(text))
    }

    fn number(&self, raw: &str) -> Result<Value, Failure> {
        if raw.contains(['.', 'e', 'E']) {
            let real: serde_json::Result<f64> = serde_json::from_str(raw);
            let real = real.map_err(|_| self.refused("too large", "is a number beyond 64-bit floats"))?;
            return Ok(Value::from(real));
        }
        let whole = raw.parse::<i64>();
        whole
            .map(Value::from)
            .map_err(|_| self.refused("too large", "is an integer beyond 64 bits with a sign"))
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
