//! Masks credentials in URLs: user and password before the host, and signatures
//! and tokens in the query. Messages, reports and logs show `***` instead.
//!
//! The text need not be a URL: URLs are found inside of sentences, shell
//! commands and JSON. Masking is by name and therefore not complete; a secret
//! in the path of a URL is not recognized.

use std::borrow::Cow;

/// Query parameters whose value grants access, in lower case.
const PARAMETERS: [&str; 14] = [
    "x-amz-credential",
    "x-amz-security-token",
    "x-amz-signature",
    "x-goog-credential",
    "x-goog-signature",
    "access_token",
    "api_key",
    "apikey",
    "auth",
    "password",
    "secret",
    "sig",
    "signature",
    "token",
];

/// Masks user information and the secret query parameters of every URL in
/// `text`. Borrows the text if it contains no URL.
///
/// ```
/// use tarpipe::messages::secret::mask;
///
/// assert_eq!(mask("GET https://me:pw@h/x?sig=abc&page=2"), "GET https://***@h/x?sig=***&page=2");
/// ```
pub fn mask(text: &str) -> Cow<'_, str> {
    cover(text, true)
}

/// Masks only user information. Queries stay, because reports identify rows by
/// their URL.
pub fn mask_users(text: &str) -> Cow<'_, str> {
    cover(text, false)
}

/// Finds URLs by their `://` and masks each.
fn cover(text: &str, queries: bool) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("://").map(|at| at + 3) {
        out.push_str(&rest[..at]);
        let end = rest[at..].find(ends_url).map_or(rest.len(), |length| at + length);
        cover_url(&rest[at..end], queries, &mut out);
        rest = &rest[end..];
    }
    Cow::Owned(out + rest)
}

/// Characters that end a URL inside of a sentence, a command or JSON.
fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\"'<>`".contains(c)
}

/// Appends a masked URL; `url` begins after the `://`.
fn cover_url(url: &str, queries: bool, out: &mut String) {
    let path = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (authority, rest) = url.split_at(path);
    match authority.rsplit_once('@') {
        Some((_, host)) => out.extend(["***@", host]),
        None => out.push_str(authority),
    }
    let query = rest.find('?').filter(|_| queries).map_or(rest.len(), |at| at + 1);
    out.push_str(&rest[..query]);
    for (i, parameter) in rest[query..].split('&').enumerate() {
        out.push_str(if i > 0 { "&" } else { "" });
        match parameter.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret(name) => out.extend([name, "=***"]),
            _ => out.push_str(parameter),
        }
    }
}

fn is_secret(name: &str) -> bool {
    PARAMETERS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_passwords_and_signatures_are_covered() {
        for (text, masked) in [
            ("http://me:pw@h/x: refused", "http://***@h/x: refused"),
            ("https://token@h", "https://***@h"),
            ("a ftp://u:p@w@h:21/ b http://u@i/", "a ftp://***@h:21/ b http://***@i/"),
            ("pipe:curl 'http://u:p@h/a' | cat", "pipe:curl 'http://***@h/a' | cat"),
            ("http://h/x?a=1&X-Amz-Signature=abc&b=2", "http://h/x?a=1&X-Amz-Signature=***&b=2"),
            ("http://h/x?token=abc#part", "http://h/x?token=***"),
            ("http://u:p?q@h/", "http://u:p?q@h/"),
        ] {
            assert_eq!(mask(text), masked);
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in
            ["s3://bucket/a@b", "hf://datasets/o/n@refs/x.tar", "a@b://", "://", "http://h/?page=2&tokens=3", "ü"]
        {
            assert_eq!(mask(text), text);
        }
        assert_eq!(mask_users("http://u:p@h/x?token=abc"), "http://***@h/x?token=abc");
    }
}
