//! Error messages of stores, in one line of plain English. The messages of the
//! client repeat addresses, which may contain signatures, and whole XML
//! documents.

use anyhow::{Result, anyhow};
use object_store::Error;

/// Explains the error of a request. `anonymous` is the hint to add to a refusal
/// if the request was sent without credentials.
pub(super) fn explain(err: Error, anonymous: Option<&str>) -> anyhow::Error {
    let text = full_text(&err);
    let code = between(&text, "<Code>", "</Code>").unwrap_or_default();
    let said = match (code, &err) {
        ("NoSuchBucket" | "ContainerNotFound", _) => "no such bucket".into(),
        ("InvalidAccessKeyId", _) => "the server does not know this access key".into(),
        ("SignatureDoesNotMatch" | "AuthenticationFailed", _) => "the secret key is wrong".into(),
        ("ExpiredToken", _) => "the credentials have expired".into(),
        ("NoSuchUpload", _) => "the upload was aborted by someone else".into(),
        (_, Error::NotFound { .. }) => "no such object".into(),
        (_, Error::PermissionDenied { .. }) => "access denied".into(),
        (_, Error::Unauthenticated { .. }) => "the server does not accept the credentials".into(),
        (_, Error::Precondition { .. }) => "changed on the server while it was read".into(),
        _ => other(&text),
    };
    let refused = matches!(err, Error::PermissionDenied { .. } | Error::Unauthenticated { .. });
    match anonymous.filter(|_| refused) {
        Some(hint) => anyhow!("{said} ({hint})"),
        None => anyhow!(said),
    }
}

/// The result of a request with its error explained.
pub(super) fn explained<T>(result: object_store::Result<T>, anonymous: Option<&str>) -> Result<T> {
    result.map_err(|err| explain(err, anonymous))
}

/// Whether the server refused a range because the object is empty, or ignored
/// it.
pub(super) fn is_about_the_range(err: &Error) -> bool {
    let text = full_text(err);
    text.contains("status code: 416") || text.contains("InvalidRange") || text.contains("non-partial response")
}

/// The error with all its causes, without repetitions.
fn full_text(err: &Error) -> String {
    let mut text = err.to_string();
    let mut source = std::error::Error::source(err);
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// The status, the cause of a failed connection, or the last cause of any other
/// error.
fn other(text: &str) -> String {
    let attempts = between(text, ", after ", " retries").and_then(|n| n.parse::<u32>().ok());
    let given_up = attempts.map_or(String::new(), |n| format!(", given up after {} attempts", n + 1));
    if let Some(rest) = text.split("status code: ").nth(1) {
        let status = rest.split(':').next().unwrap_or(rest).trim();
        let code = between(text, "<Code>", "</Code>").map_or(String::new(), |code| format!(" ({code})"));
        return format!("the server answers {status}{code}{given_up}");
    }
    if text.contains("Received redirect without LOCATION") {
        return "the bucket is in another region (set AWS_REGION)".into();
    }
    let cause = text.rsplit(": ").next().unwrap_or(text).trim();
    if text.contains("tcp connect error") || text.contains("dns error") {
        return format!("cannot connect: {cause}{given_up}");
    }
    let line: String = cause.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    format!("{line}{given_up}")
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.split(start).nth(1)?.split_once(end).map(|(inside, _)| inside)
}
