//! Messages of jobs: dictionaries of named fields in bencode, the encoding of BEP 3.
//!
//! Owns the encoding. Only the canonical form is read: keys ascending and unique, no leading zeros,
//! no bytes after the end. The twin in Python is `core/message.py`. Fields belong to `jobs`.

use std::collections::BTreeMap;
use std::path::Path;

use revlog::Node;

use crate::failure::Failure;

/// Maximum nesting of messages and lists.
const MOST_DEPTH: usize = 8;

/// Named fields, read from a request or set in an answer.
///
/// ```
/// use capi::message::Fields;
/// let bytes = Fields::default().with("revs", 7_u64).with("names", "a").encode();
/// assert_eq!(bytes, b"d5:names1:a4:revsi7ee");
/// let mut request = Fields::decode(&bytes)?;
/// assert_eq!(request.take::<u32>("revs")?, 7);
/// assert_eq!(request.end().expect_err("one is left").to_string(), "unknown field 'names'");
/// # Ok::<(), capi::failure::Failure>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a> {
    fields: BTreeMap<&'a [u8], Value<'a>>,
    /// Prefix for names in errors: the field with this message, and a dot. Empty for the outermost.
    prefix: String,
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer.
    Int(i128),
    /// A byte string.
    Bytes(&'a [u8]),
    /// A list.
    List(Vec<Value<'a>>),
    /// A message.
    Fields(Fields<'a>),
}

/// Type of a field.
pub trait FieldType<'a>: Sized {
    /// Converts the value of the field `name`; `None` if it is of another type or out of range.
    fn of(value: Value<'a>, name: &str) -> Option<Self>;

    /// Value of a field that is missing; `None` if it is required.
    #[must_use]
    fn missing() -> Option<Self> {
        None
    }
}

impl<'a> Fields<'a> {
    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// A bug if the bytes are not one message in canonical form.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Failure> {
        let mut decoder = Decoder { rest: bytes };
        match decoder.value(0) {
            Some(Value::Fields(message)) if decoder.rest.is_empty() => Ok(message),
            _ => Err(Failure::bug(format!(
                "malformed message at byte {} of {}",
                bytes.len() - decoder.rest.len(),
                bytes.len()
            ))),
        }
    }

    /// Takes the field `name` out.
    ///
    /// # Errors
    ///
    /// A bug that names the field if it is missing, of another type or out of range.
    pub fn take<T: FieldType<'a>>(&mut self, name: &str) -> Result<T, Failure> {
        let full = format!("{}{name}", self.prefix);
        match self.fields.remove(name.as_bytes()) {
            None => T::missing().ok_or_else(|| Failure::bug(format!("field '{full}' is missing"))),
            Some(value) => {
                let found = format!("field '{full}' cannot be {}", value.kind());
                T::of(value, &full).ok_or_else(|| Failure::bug(found))
            }
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// A bug that names an unknown field, if one was not taken.
    pub fn end(self) -> Result<(), Failure> {
        let Some(name) = self.fields.keys().next() else { return Ok(()) };
        let name = String::from_utf8_lossy(name);
        Err(Failure::bug(format!("unknown field '{}{name}'", self.prefix)))
    }

    /// The same message with the field `name`.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: impl Into<Value<'a>>) -> Self {
        self.fields.insert(name.as_bytes(), value.into());
        self
    }

    /// The same message with the field `name`, if it has a value.
    #[must_use]
    pub fn with_some(self, name: &'a str, value: Option<impl Into<Value<'a>>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The bytes of the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(b'd');
        for (name, value) in &self.fields {
            Value::Bytes(name).write(out);
            value.write(out);
        }
        out.push(b'e');
    }
}

impl Value<'_> {
    /// Description for errors.
    fn kind(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Bytes(bytes) => format!("a byte string of length {}", bytes.len()),
            Self::List(values) => format!("a list of length {}", values.len()),
            Self::Fields(_) => "a message".to_owned(),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => out.extend_from_slice(format!("i{number}e").as_bytes()),
            Self::Bytes(bytes) => {
                out.extend_from_slice(format!("{}:", bytes.len()).as_bytes());
                out.extend_from_slice(bytes);
            }
            Self::List(values) => {
                out.push(b'l');
                for value in values {
                    value.write(out);
                }
                out.push(b'e');
            }
            Self::Fields(message) => message.write(out),
        }
    }
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Decodes a value; `None` if it is malformed.
    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > MOST_DEPTH {
            return None;
        }
        match self.rest.first()? {
            b'i' => {
                self.skip(1);
                self.number(b'e').map(Value::Int)
            }
            b'l' => {
                self.skip(1);
                let mut values = Vec::new();
                while !self.has_ended()? {
                    values.push(self.value(depth + 1)?);
                }
                Some(Value::List(values))
            }
            b'd' => {
                self.skip(1);
                let mut message = Fields::default();
                while !self.has_ended()? {
                    let name = self.bytes()?;
                    let is_after = |(last, _): (&&[u8], _)| *last < name;
                    if !message.fields.last_key_value().is_none_or(is_after) {
                        return None;
                    }
                    message.fields.insert(name, self.value(depth + 1)?);
                }
                Some(Value::Fields(message))
            }
            _ => self.bytes().map(Value::Bytes),
        }
    }

    /// Skips the end of a list or message, if it is next; `None` at the end of the input.
    fn has_ended(&mut self) -> Option<bool> {
        let is_end = *self.rest.first()? == b'e';
        self.skip(usize::from(is_end));
        Some(is_end)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number(b':')?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Decodes a number in canonical form and the byte `end` after it.
    fn number(&mut self, end: u8) -> Option<i128> {
        let len = self.rest.iter().take(41).position(|byte| *byte == end)?;
        let text = str::from_utf8(&self.rest[..len]).ok()?;
        let number: i128 = text.parse().ok()?;
        self.skip(len + 1);
        (number.to_string() == text).then_some(number)
    }

    fn skip(&mut self, len: usize) {
        self.rest = &self.rest[len..];
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl<'a> FieldType<'a> for $integer {
            fn of(value: Value<'a>, _name: &str) -> Option<Self> {
                let Value::Int(number) = value else { return None };
                number.try_into().ok()
            }
        }
    )*};
}
integers!(u8, u32, i32, u64, usize);

impl<'a> FieldType<'a> for bool {
    fn of(value: Value<'a>, _name: &str) -> Option<Self> {
        match value {
            Value::Int(0) => Some(false),
            Value::Int(1) => Some(true),
            _ => None,
        }
    }
}

impl<'a> FieldType<'a> for &'a [u8] {
    fn of(value: Value<'a>, _name: &str) -> Option<Self> {
        let Value::Bytes(bytes) = value else { return None };
        Some(bytes)
    }
}

/// Names of files of amalgam, which are ASCII.
impl<'a> FieldType<'a> for &'a str {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        str::from_utf8(FieldType::of(value, name)?).ok()
    }
}

impl<'a> FieldType<'a> for String {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        <&str>::of(value, name).map(str::to_owned)
    }
}

impl<'a> FieldType<'a> for &'a Path {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = FieldType::of(value, name)?;
        Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
}

impl<'a> FieldType<'a> for Node {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        let bytes: &[u8] = FieldType::of(value, name)?;
        Some(Self::from_bytes(bytes.try_into().ok()?))
    }
}

/// Values of 20 or 4 bytes in one byte string, the small ones in the byte order of the machine.
impl<'a, const LEN: usize> FieldType<'a> for &'a [[u8; LEN]] {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        let (values, rest) = <&[u8]>::of(value, name)?.as_chunks();
        rest.is_empty().then_some(values)
    }
}

impl<'a> FieldType<'a> for Fields<'a> {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        let Value::Fields(message) = value else { return None };
        Some(Self { prefix: format!("{name}."), ..message })
    }
}

impl<'a, T: FieldType<'a>> FieldType<'a> for Vec<T> {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        let Value::List(values) = value else { return None };
        values.into_iter().map(|value| T::of(value, name)).collect()
    }
}

impl<'a, T: FieldType<'a>> FieldType<'a> for Option<T> {
    fn of(value: Value<'a>, name: &str) -> Option<Self> {
        T::of(value, name).map(Some)
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Int(number.into())
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a [u8; 20]> for Value<'a> {
    fn from(id: &'a [u8; 20]) -> Self {
        Self::Bytes(id)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl<'a> From<&'a [String]> for Value<'a> {
    fn from(names: &'a [String]) -> Self {
        Self::List(names.iter().map(|name| name.as_str().into()).collect())
    }
}

impl<'a> From<Fields<'a>> for Value<'a> {
    fn from(message: Fields<'a>) -> Self {
        Self::Fields(message)
    }
}

impl<'a> From<Vec<Fields<'a>>> for Value<'a> {
    fn from(messages: Vec<Fields<'a>>) -> Self {
        Self::List(messages.into_iter().map(Value::Fields).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_message_is_decoded() {
        let inner = Fields::default().with("fd", 3_u32).with("path", "a\0b");
        let list: Value<'_> = vec![inner.clone(), inner.clone()].into();
        let message = Fields::default()
            .with("ids", &[7; 20])
            .with("list", list)
            .with("most", u64::MAX)
            .with("one", inner)
            .with_some("no", None::<u32>);
        assert_eq!(Fields::decode(&message.encode()).expect("is whole"), message);
    }

    #[test]
    fn fields_have_types() {
        let bytes = Fields::default().with("n", 300_u32).with("s", "x").encode();
        let refused = |take: fn(&mut Fields<'_>) -> Result<(), Failure>| {
            let mut message = Fields::decode(&bytes).expect("is whole");
            take(&mut message).expect_err("is refused").to_string()
        };
        assert_eq!(refused(|it| it.take::<u8>("n").map(drop)), "field 'n' cannot be 300");
        assert_eq!(refused(|it| it.take::<bool>("n").map(drop)), "field 'n' cannot be 300");
        assert_eq!(
            refused(|it| it.take::<u8>("s").map(drop)),
            "field 's' cannot be a byte string of length 1"
        );
        assert_eq!(refused(|it| it.take::<u8>("m").map(drop)), "field 'm' is missing");
        let mut message = Fields::decode(&bytes).expect("is whole");
        assert_eq!(message.take::<Option<u32>>("n").expect("is there"), Some(300));
        assert_eq!(message.take::<Option<u32>>("m").expect("is optional"), None);
        assert_eq!(message.end().expect_err("is left").to_string(), "unknown field 's'");
    }

    #[test]
    fn fields_of_a_field_have_its_name() {
        let inner = Fields::default().with("fd", 3_u32);
        let bytes = Fields::default().with("map", inner).encode();
        let mut message = Fields::decode(&bytes).expect("is whole");
        let mut map: Fields<'_> = message.take("map").expect("is a message");
        assert_eq!(
            map.take::<&str>("path").expect_err("is missing").to_string(),
            "field 'map.path' is missing"
        );
        assert_eq!(map.end().expect_err("is left").to_string(), "unknown field 'map.fd'");
    }

    #[test]
    fn malformed_messages_are_refused() {
        let deep = [b"d1:a".as_slice(), &b"l".repeat(20), &b"e".repeat(21)].concat();
        for bytes in [
            b"".as_slice(),
            b"d",
            b"i7e",            // no message
            b"de ",            // bytes after the end
            b"d1:ai7e",        // no end
            b"d1:ai07ee",      // leading zero
            b"d1:ai-0ee",      // no number in canonical form
            b"d1:ai+7ee",      // likewise
            b"d1:aiee",        // no digits
            b"d01:a0:e",       // leading zero of a length
            b"d1:a9:xe",       // length beyond the end
            b"d1:bi7e1:ai7ee", // keys not ascending
            b"d1:ai7e1:ai7ee", // key twice
            b"di7ei7ee",       // key that is no byte string
            deep.as_slice(),
        ] {
            let refused = Fields::decode(bytes).expect_err("is refused").to_string();
            assert!(refused.starts_with("malformed message at byte "), "{refused}");
        }
    }
}
