//! A name that promises media must not be given to a page: many servers answer a missing file with a page
//! and a good status.

use super::failure::{Code, Failure};
use super::kind;

/// Extensions of video and sound.
const MEDIA: [&str; 19] = [
    "mp4", "webm", "mkv", "mov", "avi", "m4v", "mpg", "mpeg", "ts", "flv", "wmv", "ogv", "3gp", "mp3", "flac", "wav",
    "ogg", "opus", "m4a",
];

/// Refuses text where `extension`, or else the end of the URL's path, says video or sound.
pub fn check(extension: Option<&str>, url: &str, data: &[u8], claimed: Option<&str>) -> Result<(), Failure> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let promised = extension.or_else(|| path.rsplit('/').next()?.rsplit_once('.').map(|(_, end)| end)).unwrap_or("");
    if !MEDIA.iter().any(|known| known.eq_ignore_ascii_case(promised)) {
        return Ok(());
    }
    let mime = kind::mime(data, claimed);
    if mime.starts_with("text/") || matches!(mime.as_str(), "application/json" | "application/xml") {
        return Err(Failure::lasting(Code::Mime, format!("the body is {mime}, and {promised} was asked for")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_no_video() {
        let page = b"<!DOCTYPE html><html><body>not here</body></html>";
        assert!(check(None, "http://h/a.MP4?x=1", page, Some("video/mp4")).is_err());
        assert!(check(Some("mp4"), "http://h/a", page, None).is_err());
        assert!(check(None, "http://h/a.flac", b"missing", Some("text/plain")).is_err());
        assert!(check(None, "http://h/a.html", page, None).is_ok());
        assert!(check(None, "http://h/a.mp4", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom", Some("text/plain")).is_ok());
        assert!(check(None, "http://h/a.mp4", b"anything", None).is_ok());
    }
}
