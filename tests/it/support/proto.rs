//! Minimal protocol buffers for the tests: appends fields to a message, and splits a message into
//! fields. Independent of the server's own code, so that errors of either show.

/// A message under construction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    /// Appends a varint field.
    pub(crate) fn varint(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        push_varint(&mut self.0, value);
        self
    }

    /// Appends a `sint` field.
    pub(crate) fn zigzag(self, field: u32, value: i64) -> Self {
        self.varint(field, zigzag(value))
    }

    /// Appends a `double` field.
    pub(crate) fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Appends a string, bytes or message field.
    pub(crate) fn bytes(mut self, field: u32, value: impl AsRef<[u8]>) -> Self {
        self.key(field, 2);
        push_varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend(value.as_ref());
        self
    }

    /// Appends messages as one repeated field.
    pub(crate) fn messages(self, field: u32, items: impl IntoIterator<Item = Message>) -> Self {
        items.into_iter().fold(self, |message, item| message.bytes(field, item.0))
    }

    /// Appends a packed field of `sint` values.
    pub(crate) fn packed_zigzag(self, field: u32, values: &[i64]) -> Self {
        let mut packed = Vec::new();
        values.iter().for_each(|&value| push_varint(&mut packed, zigzag(value)));
        self.bytes(field, packed)
    }

    /// Appends a packed field of `double` values.
    pub(crate) fn packed_double(self, field: u32, values: &[f64]) -> Self {
        self.bytes(field, values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// The message prefixed with its length.
    pub(crate) fn delimited(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, self.0.len() as u64);
        bytes.extend(&self.0);
        bytes
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        push_varint(&mut self.0, u64::from(field << 3 | wire_type));
    }
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Its bytes; panics when it is a number.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("not bytes: {other:?}"),
        }
    }

    /// Its text; panics when it is not text.
    pub(crate) fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("a string field is UTF-8")
    }

    /// Its bits as a signed number; panics when it is not a varint.
    pub(crate) fn int(self) -> i64 {
        match self {
            Self::Varint(value) => value.cast_signed(),
            other => panic!("not a varint: {other:?}"),
        }
    }

    /// The bits of its number; panics when it is not a number.
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Varint(value) => value,
            Self::Double(value) => value.to_bits(),
            Self::Bytes(_) => panic!("not a number: {self:?}"),
        }
    }
}

/// The varints of a packed field.
pub(crate) fn varints(mut packed: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !packed.is_empty() {
        values.push(take_varint(&mut packed));
    }
    values
}

/// The number of a `sint` field.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Consecutive messages, each prefixed with its length.
pub(crate) fn delimited(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = take_varint(&mut bytes);
        messages.push(take(&mut bytes, usize::try_from(length).expect("a length")));
    }
    messages
}

/// The fields of a message, in their order. Panics on anything that is not a message.
pub(crate) fn fields(mut message: &[u8]) -> Vec<(u32, Value<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = take_varint(&mut message);
        let value = match key & 7 {
            0 => Value::Varint(take_varint(&mut message)),
            1 => Value::Double(f64::from_le_bytes(
                take(&mut message, 8).try_into().expect("8 bytes"),
            )),
            2 => {
                let length = take_varint(&mut message);
                Value::Bytes(take(&mut message, usize::try_from(length).expect("a length")))
            }
            other => panic!("wire type {other}"),
        };
        fields.push((u32::try_from(key >> 3).expect("a field number"), value));
    }
    fields
}

fn take<'a>(message: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(length);
    *message = rest;
    taken
}

fn take_varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint of more than 64 bits")
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}
