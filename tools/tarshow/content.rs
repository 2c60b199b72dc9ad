//! Detects what a field contains from its first bytes.

use std::fmt;

use image::ImageFormat;
use tarpipe::media_type;
use tarpipe::run::panics::catch;
use tarpipe::sample::Member;

use crate::tarshow::columns::is_json;
use crate::tarshow::pictures::thumbnail;

/// What a field contains.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldContent {
    /// An image; without a size if its header is unreadable.
    Image {
        format: &'static str,
        size: Option<(u32, u32)>,
    },
    Json,
    Text,
    /// Audio or video, with its media type.
    Media(&'static str),
    /// Anything else, with its media type if known.
    Binary(Option<&'static str>),
}

impl FieldContent {
    /// Detects the content of a member. The field name matters only for JSON.
    pub fn detect(member: &Member) -> FieldContent {
        let data = &member.data;
        if let Some(format) = image_format(data) {
            return FieldContent::Image { format, size: catch(|| thumbnail::size(data)).flatten() };
        }
        let known = media_type::sniff(data).map(|(mime, _)| mime);
        if let Some(media) = known.filter(|mime| is_media(mime)) {
            return FieldContent::Media(media);
        }
        match std::str::from_utf8(data) {
            Ok(_) if is_json(&member.field) && serde_json::from_slice::<serde_json::Value>(data).is_ok() => {
                FieldContent::Json
            }
            Ok(text) if !text.contains('\0') => FieldContent::Text,
            _ => FieldContent::Binary(known),
        }
    }
}

impl fmt::Display for FieldContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldContent::Image { format, size: Some((width, height)) } => write!(f, "{format} {width}x{height}"),
            FieldContent::Image { format, size: None } => write!(f, "{format}, unreadable"),
            FieldContent::Json => f.write_str("JSON"),
            FieldContent::Text => f.write_str("text"),
            FieldContent::Media(mime) | FieldContent::Binary(Some(mime)) => f.write_str(mime),
            FieldContent::Binary(None) => f.write_str("binary"),
        }
    }
}

fn is_media(mime: &str) -> bool {
    mime.starts_with("audio/") || mime.starts_with("video/")
}

/// The usual name of an image format, including formats that cannot be decoded here.
pub fn image_format(data: &[u8]) -> Option<&'static str> {
    match image::guess_format(data) {
        Ok(ImageFormat::Jpeg) => Some("JPEG"),
        Ok(ImageFormat::Png) => Some("PNG"),
        Ok(ImageFormat::Gif) => Some("GIF"),
        Ok(ImageFormat::WebP) => Some("WebP"),
        Ok(ImageFormat::Tiff) => Some("TIFF"),
        Ok(ImageFormat::Bmp) if data.len() > 26 && data[6..10] == [0; 4] => Some("BMP"),
        // Plain text may start with the same two letters, but PNM requires whitespace after them.
        Ok(ImageFormat::Pnm) if data.get(2).is_some_and(u8::is_ascii_whitespace) && thumbnail::size(data).is_some() => {
            Some("PNM")
        }
        Ok(ImageFormat::Avif) => Some("AVIF"),
        _ => media_type::sniff(data).and_then(|(mime, _)| match mime {
            "image/heif" => Some("HEIF"),
            "image/jp2" => Some("JPEG 2000"),
            "image/jxl" => Some("JPEG XL"),
            "image/vnd.adobe.photoshop" => Some("PSD"),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(field: &str, data: &[u8]) -> FieldContent {
        FieldContent::detect(&Member::new(field, data.to_vec()))
    }

    #[test]
    fn fields_are_what_their_bytes_are() {
        assert_eq!(kind("ppm", b"P6 2 1 255\n123456"), FieldContent::Image { format: "PNM", size: Some((2, 1)) });
        assert_eq!(kind("txt", b"P5 is no picture"), FieldContent::Text);
        assert_eq!(kind("txt", b"BM, he said, and then much more text than a header holds"), FieldContent::Text);
        assert_eq!(kind("json", b"{\"a\": 1}"), FieldContent::Json);
        assert_eq!(kind("json", b"{\"a\": "), FieldContent::Text);
        assert_eq!(kind("jpg", b"\xff\xd8\xff\xe0junk"), FieldContent::Image { format: "JPEG", size: None });
        assert_eq!(kind("bin", &[0, 1, 2]), FieldContent::Binary(None));
        assert_eq!(kind("cls", b""), FieldContent::Text);
    }
}
