//! The protobuf primitives that the answers need.
//!
//! Default values of proto3 are omitted, as every encoder does. A double is the default only if all
//! its bits are zero, so -0.0 is written.

use prost::encoding::{encode_varint, encoded_len_varint};

use promkairos_model::varint::zigzag;

/// Wire type of varints.
const VARINT: u64 = 0;
/// Wire type of doubles.
const FIXED64: u64 = 1;
/// Wire type of all fields with a length.
const BYTES: u64 = 2;

/// Appends an unsigned number unless it is 0.
pub(super) fn put_uint(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        put_uint_always(out, field, value);
    }
}

/// Appends an unsigned number, also if it is 0: for a member of a oneof.
pub(super) fn put_uint_always(out: &mut Vec<u8>, field: u64, value: u64) {
    encode_varint(field << 3 | VARINT, out);
    encode_varint(value, out);
}

/// Appends an `int64` unless it is 0.
pub(super) fn put_int(out: &mut Vec<u8>, field: u64, value: i64) {
    put_uint(out, field, value as u64);
}

/// Appends a `sint32` unless it is 0.
pub(super) fn put_sint(out: &mut Vec<u8>, field: u64, value: i32) {
    put_uint(out, field, zigzag(i64::from(value)));
}

/// Appends a double unless its bits are all 0.
pub(super) fn put_double(out: &mut Vec<u8>, field: u64, value: f64) {
    if value.to_bits() != 0 {
        put_double_always(out, field, value);
    }
}

/// Appends a double, also if it is 0: for a member of a oneof.
pub(super) fn put_double_always(out: &mut Vec<u8>, field: u64, value: f64) {
    encode_varint(field << 3 | FIXED64, out);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends the key and the length of a field of `length` bytes.
pub(super) fn put_length(out: &mut Vec<u8>, field: u64, length: usize) {
    encode_varint(field << 3 | BYTES, out);
    encode_varint(length as u64, out);
}

/// Appends a field with these bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_length(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends packed `sint64`s unless the list is empty.
pub(super) fn put_packed_sints(out: &mut Vec<u8>, field: u64, values: &[i64]) {
    if values.is_empty() {
        return;
    }
    put_length(out, field, values.iter().map(|value| encoded_len_varint(zigzag(*value))).sum());
    for value in values {
        encode_varint(zigzag(*value), out);
    }
}

/// Appends packed doubles unless the list is empty.
pub(super) fn put_packed_doubles(out: &mut Vec<u8>, field: u64, values: &[f64]) {
    if values.is_empty() {
        return;
    }
    put_length(out, field, values.len() * 8);
    for value in values {
        out.extend_from_slice(&value.to_bits().to_le_bytes());
    }
}

/// Turns the bytes that were appended since `start` into a field: inserts key and length.
pub(super) fn enclose(out: &mut Vec<u8>, field: u64, start: usize) {
    let mut head = Vec::with_capacity(16);
    put_length(&mut head, field, out.len() - start);
    out.splice(start..start, head);
}

/// Bytes of an `int64` field, which is omitted if it is 0.
pub(super) fn int_len(value: i64) -> usize {
    if value == 0 { 0 } else { 1 + encoded_len_varint(value as u64) }
}

/// Bytes of a field with `length` bytes of content. Field numbers are below 16 here.
pub(super) fn bytes_len(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}
