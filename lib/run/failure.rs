//! Failures of single samples: a stable reason code for reports and scripts,
//! and a message for people.
//!
//! Used by the tools that run commands on samples (tarproc, tarvideo). A
//! failure costs one sample; errors that end the run are `anyhow::Error`.

use std::fmt;
use std::process::ExitStatus;

use crate::run::shell;
use rustix::io::Errno;

const EXHAUSTED: &str = "exhausted";
const DISK_FULL: &str = "disk_full";
/// The exit status of a shell that did not find a command.
const NOT_FOUND: i32 = 127;

/// Why a sample failed. The codes are part of the interface of the tools and do
/// not change.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The reason code, such as `timeout`, under which reports and the summary
    /// count the failure.
    pub code: &'static str,
    what: String,
    ends_run: bool,
}

impl Failure {
    /// A failure with this code and message.
    pub fn new(code: &'static str, what: impl Into<String>) -> Self {
        Failure { code, what: what.into(), ends_run: matches!(code, EXHAUSTED | DISK_FULL) }
    }

    /// The same failure, which [`Failure::ends_run`].
    pub fn fatal(self) -> Self {
        Failure { ends_run: true, ..self }
    }

    /// A failed system call made for a sample; `doing` completes the sentence
    /// "cannot …". The code says who can help: `disk_full`, `unreadable`,
    /// `bad_name`, `exhausted` (see [`Failure::ends_run`]), or `system` for
    /// everything else.
    pub fn system(doing: &str, err: Errno) -> Self {
        let code = match err {
            Errno::NOSPC | Errno::DQUOT => DISK_FULL,
            Errno::ACCESS | Errno::PERM => "unreadable",
            Errno::NAMETOOLONG => "bad_name",
            Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE => EXHAUSTED,
            _ => "system",
        };
        Failure::new(code, format!("cannot {doing}: {err}"))
    }

    /// The same as [`Failure::system`] for an error from the standard library;
    /// its code is `system` if it does not come from the operating system.
    pub fn io(doing: &str, err: &std::io::Error) -> Self {
        match Errno::from_io_error(err) {
            Some(errno) => Failure::system(doing, errno),
            None => Failure::new("system", format!("cannot {doing}: {err}")),
        }
    }

    /// The message, without the code.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns true if no sample is to blame and the next one would fail too, so
    /// that the caller ends the run: the machine ran out of processes, file
    /// descriptors, memory or space for temporary files, or a command does not
    /// exist.
    pub fn ends_run(&self) -> bool {
        self.ends_run
    }

    /// Returns true if the command itself reported the failure, by its exit
    /// status or by dying of a signal. `--on-error ignore` ignores only these.
    pub fn is_status(&self) -> bool {
        matches!(self.code, "exit_status" | "signal")
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.what)
    }
}

/// Turns the exit status of a command into a result: `exit_status` if it is not
/// 0, `signal` if the command died of a signal. Status 127 of a shell, command
/// not found, ends the run.
pub fn check(status: ExitStatus) -> Result<(), Failure> {
    let code = if status.code().is_some() { "exit_status" } else { "signal" };
    shell::check(status).map_err(|err| {
        let failure = Failure::new(code, err.to_string());
        if status.code() == Some(NOT_FOUND) { failure.fatal() } else { failure }
    })
}
