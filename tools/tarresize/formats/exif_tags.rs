//! EXIF tags as JSON, for `--exif`.

use exif::{In, Reader, Value as Tag};
use serde_json::{Map, Value};

/// Longer values, such as maker notes, are left out.
const MAX_LEN: usize = 512;

/// The tags of the main image by name; empty if the block cannot be parsed.
pub fn to_json(block: &[u8]) -> Map<String, Value> {
    let Ok(read) = Reader::new().read_raw(block.to_vec()) else { return Map::new() };
    let main = read.fields().filter(|field| field.ifd_num == In::PRIMARY);
    main.filter_map(|field| Some((field.tag.to_string(), tag_value(&field.value)?))).collect()
}

/// A number, a text, or a list of several; `None` for binary values.
fn tag_value(tag: &Tag) -> Option<Value> {
    let list: Vec<Value> = match tag {
        Tag::Byte(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::Short(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::Long(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::SShort(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::SLong(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::Rational(values) => values.iter().map(|v| v.to_f64().into()).collect(),
        Tag::SRational(values) => values.iter().map(|v| v.to_f64().into()).collect(),
        Tag::Float(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::Double(values) => values.iter().map(|&v| v.into()).collect(),
        Tag::Ascii(lines) => lines.iter().map(|line| text(line)).collect(),
        Tag::Undefined(bytes, _) if bytes.iter().all(|byte| (0x20..0x7f).contains(byte)) => vec![text(bytes)],
        _ => return None,
    };
    let long = list.iter().any(|value| value.as_str().is_some_and(|text| text.len() > MAX_LEN));
    match list.len() {
        0 => None,
        1 if !long => list.into_iter().next(),
        2..=MAX_LEN if !long => Some(list.into()),
        _ => None,
    }
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).trim_end_matches(['\0', ' ']).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_text_have_their_names() {
        let mut block = b"II*\0\x08\0\0\0\x02\0".to_vec();
        block.extend(b"\x0f\x01\x02\0\x04\0\0\0Abc\0");
        block.extend(b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0");
        block.extend([0; 4]);
        let tags = to_json(&block);
        assert_eq!(Value::from(tags), serde_json::json!({"Make": "Abc", "Orientation": 6}));
    }

    #[test]
    fn nonsense_has_no_tags() {
        assert!(to_json(b"II*\0\xff\xff\xff\xff").is_empty());
    }
}
