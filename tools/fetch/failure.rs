//! Why a row was not fetched: stable codes, and which of them are worth another try.

use std::time::Duration;

/// The reason codes of the report. Their names never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
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
    /// The server does not speak HTTP, or sends an encoding nobody asked for.
    Protocol,
    /// A site takes us for a robot, or does not serve our address or country.
    Blocked,
    /// The program of `--via` failed.
    Command,
    /// A file named with `file:` cannot be read.
    File,
    /// The row is neither JSON nor a URL, or names no URL.
    BadRow,
    /// The row's key cannot be the key of a sample.
    BadKey,
    /// The sample before it in the output has the same key.
    DuplicateKey,
    /// The row was fetched and written, but the run ended before its output was complete.
    NotKept,
}

impl Code {
    /// The name in reports and summaries.
    pub fn name(self) -> &'static str {
        match self {
            Code::Dns => "dns",
            Code::Connect => "connect",
            Code::Tls => "tls",
            Code::Timeout => "timeout",
            Code::Stalled => "stalled",
            Code::Http3xx => "http_3xx",
            Code::Http4xx => "http_4xx",
            Code::Http429 => "http_429",
            Code::Http5xx => "http_5xx",
            Code::TooLarge => "too_large",
            Code::TooSmall => "too_small",
            Code::Empty => "empty",
            Code::Mime => "mime",
            Code::Robots => "robots",
            Code::OptOut => "opt_out",
            Code::BlockedAddress => "blocked_address",
            Code::BadUrl => "bad_url",
            Code::RedirectLoop => "redirect_loop",
            Code::HashMismatch => "hash_mismatch",
            Code::Truncated => "truncated",
            Code::Interrupted => "interrupted",
            Code::Protocol => "protocol",
            Code::Blocked => "blocked",
            Code::Command => "command",
            Code::File => "file",
            Code::BadRow => "bad_row",
            Code::BadKey => "bad_key",
            Code::DuplicateKey => "duplicate_key",
            Code::NotKept => "not_kept",
        }
    }

    /// Whether the host itself, not one of its files, seems to be the trouble.
    pub fn blames_host(self) -> bool {
        let is_refused = matches!(self, Code::Http429 | Code::Blocked);
        is_refused || matches!(self, Code::Dns | Code::Connect | Code::Tls | Code::Timeout | Code::Stalled)
    }
}

/// A row, or one attempt at it, that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The stable reason.
    pub code: Code,
    /// What happened, for people.
    pub why: String,
    /// Whether the same request may well succeed later.
    pub is_transient: bool,
    /// What the server asked for in Retry-After.
    pub retry_after: Option<Duration>,
    /// Whether this machine is to blame and no row: the run ends, and the row was not done.
    pub ends_run: bool,
}

impl Failure {
    /// A failure that another attempt would meet again.
    pub fn lasting(code: Code, why: impl Into<String>) -> Self {
        Failure { code, why: why.into(), is_transient: false, retry_after: None, ends_run: false }
    }

    /// A failure that may pass.
    pub fn passing(code: Code, why: impl Into<String>) -> Self {
        Failure { is_transient: true, ..Failure::lasting(code, why) }
    }

    /// A failure of this machine.
    pub fn ours(why: impl Into<String>) -> Self {
        Failure { ends_run: true, ..Failure::lasting(Code::Interrupted, why) }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for Failure {}
