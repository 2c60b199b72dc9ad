//! What became of a row, in the words of the programs that people know.

use clap::ValueEnum;
use hyper::StatusCode;
use serde_json::{Map, Value};
use tarpipe::sample::Sample;

use crate::video;

/// Whose words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Words {
    Img2dataset,
    Video2dataset,
    Any2dataset,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Success,
    FailedToDownload,
    /// To resize, or whatever else was to be done with it.
    FailedToProcess,
}

/// Columns that only a success has.
const OF_SUCCESS: [&str; 3] = ["md5", "sha256", "sha512"];

impl Words {
    /// The name of a status, which is also that of its count.
    pub fn name(self, status: Status) -> &'static str {
        match (status, self) {
            (Status::Success, _) => "success",
            (Status::FailedToDownload, _) => "failed_to_download",
            (Status::FailedToProcess, Words::Img2dataset) => "failed_to_resize",
            (Status::FailedToProcess, Words::Video2dataset | Words::Any2dataset) => "failed_to_subsample",
        }
    }

    /// Rewords what the json of a sample says about its fate.
    pub fn tell(self, facts: &mut Map<String, Value>, sample: &mut Sample) -> Status {
        if self == Words::Video2dataset {
            video::rename(facts, sample);
        }
        let text = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("status") != "failed" {
            facts.insert("status".into(), self.name(Status::Success).into());
            for name in ["error_message", "code"] {
                facts.shift_remove(name);
            }
            return Status::Success;
        }
        let (tool, code, message) = (text("tool"), text("code"), text("error_message"));
        let http_status = facts.get("http_status").and_then(Value::as_u64);
        // An empty body was downloaded, as the others see it, and is no picture.
        let is_empty = self == Words::Img2dataset && code == "empty";
        let status = if tool == "fetch" && !is_empty { Status::FailedToDownload } else { Status::FailedToProcess };
        let message = match status {
            Status::FailedToDownload => download(&code, message, http_status),
            _ if self == Words::Img2dataset => resize(&code, message),
            _ => message,
        };
        facts.insert("status".into(), self.name(status).into());
        facts.insert("error_message".into(), message.into());
        for name in OF_SUCCESS {
            facts.shift_remove(name);
        }
        status
    }
}

/// As urllib has it, where its words say as much as ours.
fn download(code: &str, message: String, http_status: Option<u64>) -> String {
    match (code, http_status) {
        ("opt_out", _) => "Use of image disallowed by X-Robots-Tag directive".into(),
        ("hash_mismatch", _) => "hash mismatch".into(),
        ("timeout", _) => "<urlopen error timed out>".into(),
        ("dns" | "connect" | "tls", _) => format!("<urlopen error {message}>"),
        ("http_3xx" | "http_4xx" | "http_429" | "http_5xx", Some(number)) => {
            let status = u16::try_from(number).ok().and_then(|number| StatusCode::from_u16(number).ok());
            format!("HTTP Error {number}: {}", status.and_then(|status| status.canonical_reason()).unwrap_or_default())
        }
        _ => message,
    }
}

fn resize(code: &str, message: String) -> String {
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

    fn told(facts: Value) -> (String, Value) {
        let Value::Object(mut facts) = facts else { panic!("no object") };
        let mut sample = Sample { key: "0".into(), mtime: 0, source: "".into(), members: Vec::new() };
        Words::Img2dataset.tell(&mut facts, &mut sample);
        (facts["status"].as_str().unwrap().to_owned(), facts.remove("error_message").unwrap_or_default())
    }

    #[test]
    fn failures_are_told_as_img2dataset_tells_them() {
        let failed = |tool: &str, code: &str, http: Value| {
            told(json!({"status": "failed", "tool": tool, "code": code, "error_message": "why", "http_status": http}))
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
        assert_eq!(told(json!({"status": "success", "code": "x"})), ("success".to_owned(), Value::Null));
    }
}
