//! EXIF tags as JSON, for people who look for cameras and dates.

use exif::{In, Reader, Value as Tag};
use serde_json::{Map, Value};

/// Longer values are maker's notes and the like: nothing to read.
const LONGEST: usize = 512;

/// The tags of the main image by name; empty where the block cannot be read.
pub fn tags(block: &[u8]) -> Map<String, Value> {
    let Ok(read) = Reader::new().read_raw(block.to_vec()) else { return Map::new() };
    let main = read.fields().filter(|field| field.ifd_num == In::PRIMARY);
    main.filter_map(|field| Some((field.tag.to_string(), value(&field.value)?))).collect()
}

/// Numbers as numbers, text as text, several as a list; nothing for blobs.
fn value(tag: &Tag) -> Option<Value> {
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
    let long = list.iter().any(|value| value.as_str().is_some_and(|text| text.len() > LONGEST));
    match list.len() {
        0 => None,
        1 if !long => list.into_iter().next(),
        2..=LONGEST if !long => Some(list.into()),
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
        let tags = tags(&block);
        assert_eq!(Value::from(tags), serde_json::json!({"Make": "Abc", "Orientation": 6}));
    }

    #[test]
    fn nonsense_has_no_tags() {
        assert!(tags(b"II*\0\xff\xff\xff\xff").is_empty());
    }
}
