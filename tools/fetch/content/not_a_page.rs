//! Refuses pages where the URL asks for media: many servers answer a request for a missing file with an HTML page and
//! status 200.

use tarpipe::media_type;

use crate::fetch::failure::{FailureCode, FetchFailure};

/// Extensions of video and audio.
const MEDIA: [&str; 19] = [
    "mp4", "webm", "mkv", "mov", "avi", "m4v", "mpg", "mpeg", "ts", "flv", "wmv", "ogv", "3gp", "mp3", "flac", "wav",
    "ogg", "opus", "m4a",
];

/// Refuses text if `extension`, or else the extension of the URL, is one of video or audio.
pub fn check(extension: Option<&str>, url: &str, data: &[u8], content_type: Option<&str>) -> Result<(), FetchFailure> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let expected = extension.or_else(|| path.rsplit('/').next()?.rsplit_once('.').map(|(_, end)| end)).unwrap_or("");
    if !MEDIA.iter().any(|known| known.eq_ignore_ascii_case(expected)) {
        return Ok(());
    }
    let mime = media_type::mime(data, content_type);
    if mime.starts_with("text/") || matches!(mime.as_str(), "application/json" | "application/xml") {
        return Err(FetchFailure::permanent(FailureCode::Mime, format!("expected {expected}, received {mime}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_place_of_media_is_refused() {
        let page = b"<!DOCTYPE html><html><body>not here</body></html>";
        assert!(check(None, "http://h/a.MP4?x=1", page, Some("video/mp4")).is_err());
        assert!(check(Some("mp4"), "http://h/a", page, None).is_err());
        assert!(check(None, "http://h/a.flac", b"missing", Some("text/plain")).is_err());
        assert!(check(None, "http://h/a.html", page, None).is_ok());
        assert!(check(None, "http://h/a.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", Some("text/plain")).is_ok());
        assert!(check(None, "http://h/a.mp4", b"anything", None).is_ok());
    }
}
