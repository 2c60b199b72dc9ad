//! What a file is: its media type and file extension, detected from its first
//! bytes, or else taken from what a server says. fetch names files by it, and
//! tarshow describes fields.

/// The extension for a file, such as `jpg`; `bin` if its type is unknown.
///
/// ```
/// use tarpipe::media_type::extension;
///
/// assert_eq!(extension(b"\xff\xd8\xff\xe0aaaa", Some("image/png")), "jpg");
/// assert_eq!(extension(b"hello", Some("text/plain; charset=utf-8")), "txt");
/// ```
pub fn extension(data: &[u8], content_type: Option<&str>) -> String {
    if let Some((_, extension)) = sniff(data) {
        return extension.into();
    }
    let mime = without_parameters(content_type.unwrap_or_default());
    let known = KNOWN.iter().find(|(name, _)| *name == mime);
    known.map_or("bin", |(_, extension)| extension).into()
}

/// The media type of a file; `application/octet-stream` if it is unknown.
pub fn mime(data: &[u8], content_type: Option<&str>) -> String {
    match (sniff(data), without_parameters(content_type.unwrap_or_default())) {
        (Some((mime, _)), _) => mime.into(),
        (None, "") => "application/octet-stream".into(),
        (None, claimed) => claimed.to_ascii_lowercase(),
    }
}

/// Media type and extension detected from the bytes alone. SVG is distinguished
/// from other XML.
pub fn sniff(data: &[u8]) -> Option<(&'static str, &'static str)> {
    let found = infer::get(data).map(|detected| (detected.mime_type(), detected.extension()));
    match found {
        None | Some((_, "xml")) if is_svg(data) => Some(("image/svg+xml", "svg")),
        Some((mime, "tif")) => Some((mime, "tiff")),
        found => found,
    }
}

/// Whether a pattern such as `image/*`, `*/*` or `image/png` matches a media type.
pub fn accepts(pattern: &str, mime: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => mime.split('/').next().is_some_and(|first| first.eq_ignore_ascii_case(family)),
        None => pattern.eq_ignore_ascii_case(mime),
    }
}

/// Extensions of types that cannot be detected from the bytes.
const KNOWN: [(&str, &str); 20] = [
    ("text/plain", "txt"),
    ("text/html", "html"),
    ("text/csv", "csv"),
    ("text/css", "css"),
    ("text/javascript", "js"),
    ("text/markdown", "md"),
    ("text/vtt", "vtt"),
    ("application/json", "json"),
    ("application/xml", "xml"),
    ("text/xml", "xml"),
    ("image/svg+xml", "svg"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/x-portable-pixmap", "ppm"),
    ("image/x-portable-graymap", "pgm"),
    ("image/x-portable-anymap", "pnm"),
    ("application/x-tar", "tar"),
    ("audio/aac", "aac"),
    ("audio/mpeg", "mp3"),
    ("video/mp2t", "ts"),
];

fn without_parameters(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn is_svg(data: &[u8]) -> bool {
    let head = &data[..data.len().min(512)];
    head.windows(4).any(|four| four == b"<svg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detection_takes_precedence_over_content_type() {
        assert_eq!(extension(b"<?xml?><svg ", Some("application/octet-stream")), "svg");
        assert_eq!(extension(b"hello", None), "bin");
        assert_eq!(mime(b"\x89PNG\r\n\x1a\n", Some("text/html")), "image/png");
    }

    #[test]
    fn patterns_match_families_and_types() {
        assert!(accepts("image/*", "image/png"));
        assert!(accepts("*/*", "text/html"));
        assert!(accepts("Image/PNG", "image/png"));
        assert!(!accepts("image/*", "imagery/png"));
        assert!(!accepts("image/png", "image/jpeg"));
    }
}
