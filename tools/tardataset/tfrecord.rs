//! TFRecord, the file format of TensorFlow: one Example per sample, framed by its length and checksums.

use serde_json::{Map, Value};

/// A sample as one record: its file, its caption as txt, and every column.
pub fn record(field: &str, file: &[u8], caption: Option<&str>, row: &Map<String, Value>) -> Vec<u8> {
    let mut features = Vec::with_capacity(file.len() + 2048);
    feature(&mut features, field, &bytes_list([file]));
    if let Some(caption) = caption {
        feature(&mut features, "txt", &bytes_list([caption.as_bytes()]));
    }
    for (name, value) in row.iter().filter(|(name, _)| *name != field && (caption.is_none() || *name != "txt")) {
        feature(&mut features, name, &list_of(value));
    }
    let mut example = Vec::with_capacity(features.len() + 16);
    put_bytes(&mut example, 1, &features);
    framed(&example)
}

fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut out = Vec::with_capacity(data.len() + 16);
    out.extend(length);
    out.extend(masked(&length).to_le_bytes());
    out.extend(data);
    out.extend(masked(data).to_le_bytes());
    out
}

/// The Feature of a value: integers and booleans as Int64List, other numbers as FloatList, everything else as BytesList.
fn list_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Array(values) if values.iter().all(|value| whole(value).is_some()) && !values.is_empty() => {
            int_list(values.iter().filter_map(whole))
        }
        Value::Array(values) if values.iter().all(Value::is_number) && !values.is_empty() => {
            float_list(values.iter().filter_map(Value::as_f64))
        }
        Value::Array(values) => {
            let texts: Vec<String> = values.iter().map(text).collect();
            bytes_list(texts.iter().map(String::as_bytes))
        }
        value => match (whole(value), value.as_f64()) {
            (Some(number), _) => int_list([number]),
            (None, Some(number)) => float_list([number]),
            _ => bytes_list([text(value).as_bytes()]),
        },
    }
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_bool().map(i64::from))
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn feature(out: &mut Vec<u8>, name: &str, list: &[u8]) {
    let mut entry = Vec::with_capacity(list.len() + name.len() + 16);
    put_bytes(&mut entry, 1, name.as_bytes());
    put_bytes(&mut entry, 2, list);
    put_bytes(out, 1, &entry);
}

fn bytes_list<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    values.into_iter().for_each(|value| put_bytes(&mut list, 1, value));
    field(1, &list)
}

fn float_list(values: impl IntoIterator<Item = f64>) -> Vec<u8> {
    let packed: Vec<u8> = values.into_iter().flat_map(|value| (value as f32).to_le_bytes()).collect();
    field(2, &field(1, &packed))
}

fn int_list(values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let mut packed = Vec::new();
    values.into_iter().for_each(|value| put_varint(&mut packed, value as u64));
    field(3, &field(1, &packed))
}

fn field(number: u8, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 8);
    put_bytes(&mut out, number, data);
    out
}

/// A length-delimited protobuf field.
fn put_bytes(out: &mut Vec<u8>, number: u8, data: &[u8]) {
    out.push(number << 3 | 2);
    put_varint(out, data.len() as u64);
    out.extend_from_slice(data);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn masked(data: &[u8]) -> u32 {
    crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli).
fn crc32c(data: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    !data.iter().fold(!0, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8))
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0x82f6_3b78 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn each_value_becomes_the_list_of_its_type() {
        assert_eq!(list_of(&serde_json::json!(300)), [0x1a, 4, 0x0a, 2, 0xac, 2]);
        assert_eq!(list_of(&serde_json::json!(null)), [0x0a, 2, 0x0a, 0]);
        assert_eq!(list_of(&serde_json::json!(0.5)), [0x12, 6, 0x0a, 4, 0, 0, 0, 0x3f]);
    }
}
