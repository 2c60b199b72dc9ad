//! The content that loaders decode on their own, and fail on if it is invalid.

use serde_json::Value;
use tarpipe::media_type;

use crate::tarcheck::loaders::Loader;

/// Larger members are not decoded here.
const LIMIT: u64 = 16 << 20;

#[derive(Clone, Copy)]
enum Content {
    Text,
    Number,
    Json,
    Picture,
    Pickle,
}

/// The decoder that a loader chooses for a field, by its last extension.
fn content(loader: Loader, field: &str) -> Option<Content> {
    let extension = field.rsplit('.').next().unwrap_or(field);
    match loader {
        Loader::Hf => match extension.to_ascii_lowercase().as_str() {
            "txt" | "text" | "transcript" => Some(Content::Text),
            "cls" | "cls2" | "index" | "inx" | "id" => Some(Content::Number),
            "json" | "jsn" => Some(Content::Json),
            _ => None,
        },
        Loader::Ray => match extension {
            "txt" | "text" => Some(Content::Text),
            "cls" | "cls2" => Some(Content::Number),
            "json" => Some(Content::Json),
            "jpg" | "png" | "ppm" | "pgm" | "pbm" | "pnm" => Some(Content::Picture),
            "pt" | "pth" | "pickle" | "pkl" => Some(Content::Pickle),
            _ => None,
        },
        Loader::Webdataset | Loader::Energon | Loader::Wids => None,
    }
}

/// Whether a loader decodes this field, so that its data is needed.
pub fn is_decoded(loader: Loader, field: &str, size: u64) -> bool {
    size <= LIMIT && content(loader, field).is_some()
}

/// The value of a field that a loader decodes as JSON; None for other fields and for invalid JSON.
pub fn json(loader: Loader, field: &str, data: &[u8]) -> Option<Value> {
    let is_json = matches!(content(loader, field), Some(Content::Json));
    is_json.then(|| serde_json::from_slice(data).ok()).flatten()
}

/// The reason why a loader cannot decode the data of a field.
pub fn refusal(loader: Loader, field: &str, data: &[u8]) -> Option<&'static str> {
    match content(loader, field)? {
        Content::Text => std::str::from_utf8(data).err().map(|_| "is not UTF-8"),
        Content::Number => (!is_number(data)).then_some("is not an integer"),
        Content::Json => serde_json::from_slice::<serde::de::IgnoredAny>(data).err().map(|_| "is not JSON"),
        Content::Picture => (!is_picture(data)).then_some("is not an image"),
        Content::Pickle => Some("is refused as unsafe"),
    }
}

fn is_picture(data: &[u8]) -> bool {
    let is_netpbm = matches!(data, [b'P', b'1'..=b'6', ..]);
    is_netpbm || media_type::sniff(data).is_some_and(|(mime, _)| mime.starts_with("image/"))
}

/// Whether a loader makes an array of this field. Ray cannot build a table if the first sample has one and another has not.
pub fn is_array(loader: Loader, field: &str) -> bool {
    matches!(content(loader, field), Some(Content::Picture)) || (loader == Loader::Ray && field.ends_with("npy"))
}

/// What `int()` of Python accepts and 64 bits hold.
fn is_number(data: &[u8]) -> bool {
    let text = std::str::from_utf8(data).unwrap_or_default().trim();
    text.replace('_', "").parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_decoded_fields_are_looked_at() {
        assert_eq!(refusal(Loader::Hf, "cls", b" 7\n"), None);
        assert_eq!(refusal(Loader::Hf, "cls", b"cat"), Some("is not an integer"));
        assert_eq!(refusal(Loader::Hf, "a.JSON", b"{"), Some("is not JSON"));
        assert_eq!(refusal(Loader::Ray, "a.JSON", b"{"), None);
        assert_eq!(refusal(Loader::Webdataset, "cls", b"cat"), None);
        assert_eq!(refusal(Loader::Ray, "txt", b"caf\xe9"), Some("is not UTF-8"));
    }
}
