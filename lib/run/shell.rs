//! Shell commands as sources and sinks (`pipe:COMMAND`), and how words are
//! quoted for the shell.
//!
//! Each command runs in a process group of its own, so that all of it can be
//! ended, and its exit status is always checked. For commands that have to be
//! watched while they run, see [`crate::run::watched`].

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};
use rustix::process::Signal;

use crate::run::signals;
use crate::run::strays;
use crate::run::watched;

/// A running command. If it is dropped before [`ShellProcess::wait`], its
/// process group is killed.
///
/// ```
/// use std::io::Read;
/// use tarpipe::run::shell::ShellProcess;
///
/// let (process, mut output) = ShellProcess::reading("echo hello | tr a-z A-Z")?;
/// let mut text = String::new();
/// output.read_to_string(&mut text)?;
/// process.wait()?; // an error unless every stage succeeded
/// assert_eq!(text, "HELLO\n");
/// # anyhow::Ok(())
/// ```
pub struct ShellProcess {
    child: Child,
    waited: bool,
}

/// A command that runs `script` in bash with `pipefail`, so that the failure of
/// any stage of a pipeline counts. Not started yet.
pub fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", script]);
    command
}

impl ShellProcess {
    /// Starts `command` in a process group of its own. The group is ended if we
    /// are. Fails if the program cannot be executed.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mark = strays::mark_feed(command.process_group(0));
        let child = watched::spawn_marked(command, mark).with_context(|| format!("cannot start {program}"))?;
        Ok(ShellProcess { child, waited: false })
    }

    /// Starts a script and returns its output. Its stdin is empty.
    ///
    /// # Errors
    ///
    /// The shell cannot be started. Whether the script succeeds is known only
    /// at its end.
    pub fn reading(script: &str) -> Result<(Self, std::process::ChildStdout)> {
        let mut process = ShellProcess::spawn(shell(script).stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let stdout = process.child.stdout.take().context("no pipe to the command")?;
        Ok((process, stdout))
    }

    /// Starts a script and returns its stdin. The output of the script goes to
    /// stderr, because our stdout may be an archive.
    ///
    /// # Errors
    ///
    /// The shell cannot be started. Whether the script succeeds is known only
    /// at its end.
    pub fn writing(script: &str) -> Result<(Self, std::process::ChildStdin)> {
        let mut process = ShellProcess::spawn(shell(script).stdin(Stdio::piped()).stdout(std::io::stderr()))?;
        let stdin = process.child.stdin.take().context("no pipe to the command")?;
        Ok((process, stdin))
    }

    /// Waits for the command to end. Fails unless its exit status is 0. Close
    /// its pipes first, or it may never end.
    pub fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        self.waited = true;
        signals::release_group(self.child.id());
        check(status)
    }
}

/// Turns an exit status into a result. The error says whether the command
/// failed, was not found (status 127) or died of a signal.
pub fn check(status: ExitStatus) -> Result<()> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(127), _) => bail!("command not found (exit status 127)"),
        (Some(code), _) => bail!("the command failed with exit status {code}"),
        (None, signal) => bail!("the command died of signal {}", signal.unwrap_or(0)),
    }
}

impl Drop for ShellProcess {
    fn drop(&mut self) {
        if !self.waited {
            signals::signal_group(self.child.id(), Signal::KILL);
            _ = self.child.wait();
            signals::release_group(self.child.id());
        }
    }
}

/// The path of a program: `name` itself if it contains a slash, otherwise the
/// first match on the PATH. None if there is no executable file.
pub fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(name.into()).filter(is_program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

/// Quotes a word for a POSIX shell. Words of harmless characters are returned
/// as they are.
///
/// ```
/// use tarpipe::run::shell::quote;
///
/// assert_eq!(quote("shard-0001.tar"), "shard-0001.tar");
/// assert_eq!(quote("it's"), r"'it'\''s'");
/// ```
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A shell command made of these words, each quoted.
pub fn join(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Replaces every placeholder in a shell command, such as `{}`, by `word`,
/// quoted for the shell. Placeholders inside of `word` itself are not replaced.
///
/// ```
/// use tarpipe::run::shell::fill;
///
/// assert_eq!(fill("gzip -t {}", &["{}"], "my file"), "gzip -t 'my file'");
/// ```
pub fn fill(command: &str, placeholders: &[&str], word: &str) -> String {
    let (mut script, mut rest) = (String::new(), command);
    let next = |rest: &str| placeholders.iter().filter_map(|text| Some((rest.find(text)?, text.len()))).min();
    while let Some((at, length)) = next(rest) {
        script += &rest[..at];
        script += &quote(word);
        rest = &rest[at + length..];
    }
    script + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_inside_of_the_word_are_not_replaced() {
        let hostile = "{}%s{url}'$(echo out)";
        for (command, expected) in [("printf '%b|' %s", "PLACE|"), ("printf '%b|' {} x {}", "PLACE|x|PLACE|")] {
            let told = shell(&fill(command, &["{}", "%s"], hostile)).output().unwrap();
            assert_eq!(String::from_utf8(told.stdout).unwrap(), expected.replace("PLACE", hostile));
        }
        assert_eq!(fill("nothing", &["{}"], "x"), "nothing");
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        for word in ["plain/path-1.tar", "a b", "it's", "$HOME `x`", "", "*", "ä"] {
            let echoed = shell(&format!("printf %s {}", quote(word))).output().unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
        }
    }
}
