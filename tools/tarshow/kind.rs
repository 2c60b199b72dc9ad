//! What a field holds, known from its first bytes.

use std::fmt;

use image::ImageFormat;
use tarpipe::run::panics::guarded;
use tarpipe::sample::Member;

use crate::columns::is_json;
use crate::picture;

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An image; without a size where it cannot be read.
    Image {
        format: &'static str,
        size: Option<(u32, u32)>,
    },
    Json,
    Text,
    /// Audio or video, by its media type.
    Media(&'static str),
    /// Anything else, by its media type where it is known.
    Binary(Option<&'static str>),
}

impl Kind {
    /// What a member holds. Its name is asked only where bytes cannot tell.
    pub fn of(member: &Member) -> Kind {
        let data = &member.data;
        if let Some(format) = image_format(data) {
            return Kind::Image { format, size: guarded(|| picture::size(data)).flatten() };
        }
        let known = infer::get(data);
        if let Some(media) = known.filter(|kind| is_media(kind.mime_type())) {
            return Kind::Media(media.mime_type());
        }
        match std::str::from_utf8(data) {
            Ok(_) if is_json(&member.field) && serde_json::from_slice::<serde_json::Value>(data).is_ok() => Kind::Json,
            Ok(text) if !text.contains('\0') => Kind::Text,
            _ => Kind::Binary(known.map(|kind| kind.mime_type())),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Image { format, size: Some((width, height)) } => write!(f, "{format} {width}x{height}"),
            Kind::Image { format, size: None } => write!(f, "{format}, unreadable"),
            Kind::Json => f.write_str("JSON"),
            Kind::Text => f.write_str("text"),
            Kind::Media(mime) | Kind::Binary(Some(mime)) => f.write_str(mime),
            Kind::Binary(None) => f.write_str("binary"),
        }
    }
}

fn is_media(mime: &str) -> bool {
    mime.starts_with("audio/") || mime.starts_with("video/")
}

/// The name of an image's format, as people write it. Formats that are not decoded here are told
/// apart all the same.
pub fn image_format(data: &[u8]) -> Option<&'static str> {
    match image::guess_format(data) {
        Ok(ImageFormat::Jpeg) => Some("JPEG"),
        Ok(ImageFormat::Png) => Some("PNG"),
        Ok(ImageFormat::Gif) => Some("GIF"),
        Ok(ImageFormat::WebP) => Some("WebP"),
        Ok(ImageFormat::Tiff) => Some("TIFF"),
        Ok(ImageFormat::Bmp) if data.len() > 26 && data[6..10] == [0; 4] => Some("BMP"),
        // Two letters that a text may well start with: PNM demands white space after them.
        Ok(ImageFormat::Pnm) if data.get(2).is_some_and(u8::is_ascii_whitespace) && picture::size(data).is_some() => {
            Some("PNM")
        }
        Ok(ImageFormat::Avif) => Some("AVIF"),
        _ => infer::get(data).and_then(|kind| match kind.mime_type() {
            "image/heif" => Some("HEIF"),
            "image/jxl" => Some("JPEG XL"),
            "image/vnd.adobe.photoshop" => Some("PSD"),
            _ => None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(field: &str, data: &[u8]) -> Kind {
        Kind::of(&Member::new(field, data.to_vec()))
    }

    #[test]
    fn fields_are_what_their_bytes_are() {
        assert_eq!(kind("ppm", b"P6 2 1 255\n123456"), Kind::Image { format: "PNM", size: Some((2, 1)) });
        assert_eq!(kind("txt", b"P5 is no picture"), Kind::Text);
        assert_eq!(kind("txt", b"BM, he said, and then much more text than a header holds"), Kind::Text);
        assert_eq!(kind("json", b"{\"a\": 1}"), Kind::Json);
        assert_eq!(kind("json", b"{\"a\": "), Kind::Text);
        assert_eq!(kind("jpg", b"\xff\xd8\xff\xe0junk"), Kind::Image { format: "JPEG", size: None });
        assert_eq!(kind("bin", &[0, 1, 2]), Kind::Binary(None));
        assert_eq!(kind("cls", b""), Kind::Text);
    }
}
