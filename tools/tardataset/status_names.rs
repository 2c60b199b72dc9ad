//! Translates statuses and messages into those of img2dataset, video2dataset and any2dataset, for scripts that read them.

use clap::ValueEnum;
use hyper::StatusCode;
use serde_json::{Map, Value};
use tarpipe::sample::Sample;

use crate::tardataset::video;

/// The program whose names are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum StatusNames {
    Img2dataset,
    Video2dataset,
    Any2dataset,
}

/// The status of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowStatus {
    Success,
    FailedToDownload,
    /// Downloaded, but not resized, cut or whatever else was to be done.
    FailedToProcess,
}

/// Columns that only successful rows have.
const SUCCESS_COLUMNS: [&str; 3] = ["md5", "sha256", "sha512"];

impl StatusNames {
    /// The name of a status and of its count.
    pub fn name(self, status: RowStatus) -> &'static str {
        match (status, self) {
            (RowStatus::Success, _) => "success",
            (RowStatus::FailedToDownload, _) => "failed_to_download",
            (RowStatus::FailedToProcess, StatusNames::Img2dataset) => "failed_to_resize",
            (RowStatus::FailedToProcess, StatusNames::Video2dataset | StatusNames::Any2dataset) => {
                "failed_to_subsample"
            }
        }
    }

    /// Translates the status and error message in the json of a sample, and returns the status.
    pub fn translate(self, facts: &mut Map<String, Value>, sample: &mut Sample) -> RowStatus {
        if self == StatusNames::Video2dataset {
            video::rename(facts, sample);
        }
        if let Some(host) = url_host(facts) {
            facts.insert("url_host".into(), host.into());
        }
        let text = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("status") != "failed" {
            facts.insert("status".into(), self.name(RowStatus::Success).into());
            for name in ["error_message", "code"] {
                facts.shift_remove(name);
            }
            return RowStatus::Success;
        }
        let (tool, code, message) = (text("tool"), text("code"), text("error_message"));
        let http_status = facts.get("http_status").and_then(Value::as_u64);
        // img2dataset downloads an empty body and then fails to decode it.
        let is_empty = self == StatusNames::Img2dataset && code == "empty";
        let status =
            if tool == "fetch" && !is_empty { RowStatus::FailedToDownload } else { RowStatus::FailedToProcess };
        let message = match status {
            RowStatus::FailedToDownload => download_message(&code, message, http_status),
            _ if self == StatusNames::Img2dataset => resize_message(&code, message),
            _ => message,
        };
        facts.insert("status".into(), self.name(status).into());
        facts.insert("error_message".into(), message.into());
        for name in SUCCESS_COLUMNS {
            facts.shift_remove(name);
        }
        status
    }
}

/// The host of a row's URL, which is not part of messages: those are counted.
fn url_host(facts: &Map<String, Value>) -> Option<String> {
    let url = facts.get("url").and_then(Value::as_str)?;
    url::Url::parse(url.trim()).ok()?.host_str().map(str::to_owned)
}

/// The message of urllib, where it says as much as ours.
fn download_message(code: &str, message: String, http_status: Option<u64>) -> String {
    match (code, http_status) {
        ("opt_out", _) => "Use of image disallowed by X-Robots-Tag directive".into(),
        ("hash_mismatch", _) => "hash mismatch".into(),
        ("timeout", _) => "<urlopen error timed out>".into(),
        ("dns" | "connect" | "tls", _) => format!("<urlopen error {}>", os_message(&message)),
        ("http_3xx" | "http_4xx" | "http_429" | "http_5xx", Some(number)) => {
            let status = u16::try_from(number).ok().and_then(|number| StatusCode::from_u16(number).ok());
            format!("HTTP Error {number}: {}", status.and_then(|status| status.canonical_reason()).unwrap_or_default())
        }
        _ => message,
    }
}

/// The message of the operating system, with its number, for one that begins with a host.
fn os_message(message: &str) -> String {
    let is_host = |word: &str| !word.contains(' ');
    let reason = message.split_once(": ").filter(|(host, _)| is_host(host)).map_or(message, |(_, reason)| reason);
    let number = match reason {
        "unknown host" => return "[Errno -2] Name or service not known".into(),
        "Network is unreachable" => 101,
        "Connection reset by peer" => 104,
        "Connection refused" => 111,
        "No route to host" => 113,
        _ => return reason.to_owned(),
    };
    format!("[Errno {number}] {reason}")
}

fn resize_message(code: &str, message: String) -> String {
    match code {
        "decode" | "truncated" | "unsupported" | "bomb" | "no_image" | "empty" => "Image decoding error".into(),
        "too_small" => "image too small".into(),
        "too_large_area" => "image area too large".into(),
        "aspect" => "aspect ratio too large".into(),
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn translated(facts: Value) -> (String, Value) {
        let Value::Object(mut facts) = facts else { panic!("not an object") };
        let mut sample = Sample { key: "0".into(), mtime: 0, source: "".into(), members: Vec::new() };
        StatusNames::Img2dataset.translate(&mut facts, &mut sample);
        (facts["status"].as_str().unwrap().to_owned(), facts.remove("error_message").unwrap_or_default())
    }

    #[test]
    fn messages_have_no_hosts_and_are_those_of_urllib() {
        for (ours, theirs) in [
            ("h1.invalid: unknown host", "<urlopen error [Errno -2] Name or service not known>"),
            ("[::1]:9: Connection refused", "<urlopen error [Errno 111] Connection refused>"),
            ("localhost: no answer", "<urlopen error no answer>"),
            ("received corrupt message", "<urlopen error received corrupt message>"),
        ] {
            let facts = json!({"status": "failed", "tool": "fetch", "code": "connect", "error_message": ours});
            assert_eq!(translated(facts).1, json!(theirs));
        }
    }

    #[test]
    fn failures_have_the_status_and_message_of_img2dataset() {
        let failed = |tool: &str, code: &str, http: Value| {
            translated(
                json!({"status": "failed", "tool": tool, "code": code, "error_message": "why", "http_status": http}),
            )
        };
        for (tool, code, http, status, message) in [
            ("fetch", "http_4xx", json!(404), "failed_to_download", "HTTP Error 404: Not Found"),
            ("fetch", "opt_out", json!(200), "failed_to_download", "Use of image disallowed by X-Robots-Tag directive"),
            ("fetch", "truncated", json!(200), "failed_to_download", "why"),
            ("fetch", "empty", json!(200), "failed_to_resize", "Image decoding error"),
            ("tarresize", "truncated", json!(200), "failed_to_resize", "Image decoding error"),
            ("tarresize", "too_small", json!(200), "failed_to_resize", "image too small"),
        ] {
            assert_eq!(failed(tool, code, http), (status.to_owned(), json!(message)), "{tool} {code}");
        }
        assert_eq!(translated(json!({"status": "success", "code": "x"})), ("success".to_owned(), Value::Null));
    }
}
