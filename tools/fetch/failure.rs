//! Why a row was not fetched: the stable codes of the report, and whether a retry makes sense.
//!
//! Every part of fetch returns this type, so it depends on none of them.

use std::time::Duration;

/// The reason codes of the report. Their names never change: users' scripts read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCode {
    Dns,
    Connect,
    Tls,
    Timeout,
    Stalled,
    Http3xx,
    Http4xx,
    Http429,
    Http5xx,
    TooLarge,
    TooSmall,
    Empty,
    Mime,
    Robots,
    OptOut,
    BlockedAddress,
    BadUrl,
    RedirectLoop,
    HashMismatch,
    Truncated,
    Interrupted,
    /// The response is not valid HTTP, or uses an unsupported encoding.
    Protocol,
    /// The site takes us for a robot, or does not serve our address or country.
    Blocked,
    /// The `--via` command failed.
    Command,
    /// The file of a `file:` URL cannot be read.
    File,
    /// The row is neither JSON nor a URL, or a column is missing or invalid.
    BadRow,
    /// The row's key is not a valid sample key.
    BadKey,
    /// The previous sample in the output has the same key.
    DuplicateKey,
    /// The row was fetched and written, but the run ended before its output was complete.
    NotKept,
}

impl FailureCode {
    /// All codes.
    pub const ALL: [FailureCode; 29] = [
        FailureCode::Dns,
        FailureCode::Connect,
        FailureCode::Tls,
        FailureCode::Timeout,
        FailureCode::Stalled,
        FailureCode::Http3xx,
        FailureCode::Http4xx,
        FailureCode::Http429,
        FailureCode::Http5xx,
        FailureCode::TooLarge,
        FailureCode::TooSmall,
        FailureCode::Empty,
        FailureCode::Mime,
        FailureCode::Robots,
        FailureCode::OptOut,
        FailureCode::BlockedAddress,
        FailureCode::BadUrl,
        FailureCode::RedirectLoop,
        FailureCode::HashMismatch,
        FailureCode::Truncated,
        FailureCode::Interrupted,
        FailureCode::Protocol,
        FailureCode::Blocked,
        FailureCode::Command,
        FailureCode::File,
        FailureCode::BadRow,
        FailureCode::BadKey,
        FailureCode::DuplicateKey,
        FailureCode::NotKept,
    ];

    /// The name in reports and summaries.
    pub fn name(self) -> &'static str {
        match self {
            FailureCode::Dns => "dns",
            FailureCode::Connect => "connect",
            FailureCode::Tls => "tls",
            FailureCode::Timeout => "timeout",
            FailureCode::Stalled => "stalled",
            FailureCode::Http3xx => "http_3xx",
            FailureCode::Http4xx => "http_4xx",
            FailureCode::Http429 => "http_429",
            FailureCode::Http5xx => "http_5xx",
            FailureCode::TooLarge => "too_large",
            FailureCode::TooSmall => "too_small",
            FailureCode::Empty => "empty",
            FailureCode::Mime => "mime",
            FailureCode::Robots => "robots",
            FailureCode::OptOut => "opt_out",
            FailureCode::BlockedAddress => "blocked_address",
            FailureCode::BadUrl => "bad_url",
            FailureCode::RedirectLoop => "redirect_loop",
            FailureCode::HashMismatch => "hash_mismatch",
            FailureCode::Truncated => "truncated",
            FailureCode::Interrupted => "interrupted",
            FailureCode::Protocol => "protocol",
            FailureCode::Blocked => "blocked",
            FailureCode::Command => "command",
            FailureCode::File => "file",
            FailureCode::BadRow => "bad_row",
            FailureCode::BadKey => "bad_key",
            FailureCode::DuplicateKey => "duplicate_key",
            FailureCode::NotKept => "not_kept",
        }
    }

    /// Whether the host itself is at fault, rather than one of its files.
    pub fn blames_host(self) -> bool {
        let is_refused = matches!(self, FailureCode::Http429 | FailureCode::Blocked);
        is_refused
            || matches!(
                self,
                FailureCode::Dns
                    | FailureCode::Connect
                    | FailureCode::Tls
                    | FailureCode::Timeout
                    | FailureCode::Stalled
            )
    }
}

/// Why an attempt, or the whole row, failed.
#[derive(Clone, Debug)]
pub struct FetchFailure {
    pub code: FailureCode,
    /// What happened, for people to read.
    pub message: String,
    /// Whether the same request may succeed later.
    pub is_transient: bool,
    /// How long the server asked us to wait (Retry-After).
    pub retry_after: Option<Duration>,
    /// Whether this machine is at fault rather than the row: the run ends.
    pub is_fatal: bool,
}

impl FetchFailure {
    /// A failure that a retry would not cure.
    pub fn permanent(code: FailureCode, message: impl Into<String>) -> Self {
        FetchFailure { code, message: message.into(), is_transient: false, retry_after: None, is_fatal: false }
    }

    /// A failure that a retry may cure.
    pub fn transient(code: FailureCode, message: impl Into<String>) -> Self {
        FetchFailure { is_transient: true, ..FetchFailure::permanent(code, message) }
    }

    /// A failure of this machine, which ends the run.
    pub fn fatal(message: impl Into<String>) -> Self {
        FetchFailure { is_fatal: true, ..FetchFailure::permanent(FailureCode::Interrupted, message) }
    }
}

impl std::fmt::Display for FetchFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FetchFailure {}

/// The text of an I/O error without the number that std appends.
pub fn io_message(err: &std::io::Error) -> String {
    let text = err.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
