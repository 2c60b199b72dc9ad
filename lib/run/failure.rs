//! Why a sample is left out.

use std::fmt;
use std::process::ExitStatus;

use crate::run::shell;
use rustix::io::Errno;

const EXHAUSTED: &str = "exhausted";

/// A stable reason code and the reason in words.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What reports and the summary count it under.
    pub code: &'static str,
    what: String,
}

impl Failure {
    /// A failure that is counted under `code`.
    pub fn new(code: &'static str, what: impl Into<String>) -> Self {
        Failure { code, what: what.into() }
    }

    /// A call of the system on our side of the work that failed.
    pub fn system(doing: &str, err: Errno) -> Self {
        let code = match err {
            Errno::NOSPC | Errno::DQUOT => "disk_full",
            Errno::ACCESS | Errno::PERM => "unreadable",
            Errno::NAMETOOLONG => "bad_name",
            Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => EXHAUSTED,
            _ => "system",
        };
        Failure::new(code, format!("cannot {doing}: {err}"))
    }

    /// The same for calls that std makes.
    pub fn io(doing: &str, err: &std::io::Error) -> Self {
        match Errno::from_io_error(err) {
            Some(errno) => Failure::system(doing, errno),
            None => Failure::new("system", format!("cannot {doing}: {err}")),
        }
    }

    /// The reason in words.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Whether this machine has run out of processes, descriptors or memory. No sample is to blame for that, and the
    /// next one would fail as well: the run ends.
    pub fn blames_machine(&self) -> bool {
        self.code == EXHAUSTED
    }

    /// Whether the command itself said that it failed, which `--on-error ignore` passes over.
    pub fn is_status(&self) -> bool {
        matches!(self.code, "exit_status" | "signal")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.what)
    }
}

/// A failure unless a command ended well.
pub fn check(status: ExitStatus) -> Result<(), Failure> {
    let code = if status.code().is_some() { "exit_status" } else { "signal" };
    shell::check(status).map_err(|err| Failure::new(code, err.to_string()))
}
