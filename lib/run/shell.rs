//! Shell commands that feed a source or take a sink's bytes. Each leads a process group of its
//! own, so that it can be ended whole, and its exit status is always looked at.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};
use rustix::process::Signal;

use crate::run::signals;
use crate::run::strays;
use crate::run::watched;

/// A running command. Dropped before [`Process::wait`], it is killed.
pub struct Process {
    child: Child,
    waited: bool,
}

/// A shell with `pipefail`, about to run `script`.
pub fn shell(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", script]);
    command
}

impl Process {
    /// Starts `command` in a process group of its own.
    pub fn spawn(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mark = strays::mark_feed(command.process_group(0));
        let child = watched::spawn_marked(command, mark).with_context(|| format!("cannot start {program}"))?;
        Ok(Process { child, waited: false })
    }

    /// Starts a script whose output we read.
    pub fn reading(script: &str) -> Result<(Self, std::process::ChildStdout)> {
        let mut process = Process::spawn(shell(script).stdin(Stdio::null()).stdout(Stdio::piped()))?;
        let stdout = process.child.stdout.take().context("no pipe to the command")?;
        Ok((process, stdout))
    }

    /// Starts a script that reads what we write. Its own output goes to stderr: our stdout may
    /// be an archive.
    pub fn writing(script: &str) -> Result<(Self, std::process::ChildStdin)> {
        let mut process = Process::spawn(shell(script).stdin(Stdio::piped()).stdout(std::io::stderr()))?;
        let stdin = process.child.stdin.take().context("no pipe to the command")?;
        Ok((process, stdin))
    }

    /// Waits for the end; an error unless the status is 0.
    pub fn wait(mut self) -> Result<()> {
        let status = self.child.wait()?;
        self.waited = true;
        signals::release_group(self.child.id());
        check(status)
    }
}

/// An error that says how a command ended, unless it ended well.
pub fn check(status: ExitStatus) -> Result<()> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(127), _) => bail!("the command was not found (exit status 127)"),
        (Some(code), _) => bail!("the command failed with exit status {code}"),
        (None, signal) => bail!("the command was ended by signal {}", signal.unwrap_or(0)),
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.waited {
            signals::end_group(self.child.id(), Signal::KILL);
            _ = self.child.wait();
            signals::release_group(self.child.id());
        }
    }
}

/// The file of a program: one that may be executed, by its path or on the PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return Some(name.into()).filter(is_program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

/// Quotes a word for the shell.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A command with `word`, quoted, in all its `places`, such as `{}`. What the word itself holds is no place.
pub fn fill(command: &str, places: &[&str], word: &str) -> String {
    let (mut script, mut rest) = (String::new(), command);
    let next = |rest: &str| places.iter().filter_map(|place| Some((rest.find(place)?, place.len()))).min();
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
    fn a_word_with_places_in_it_is_put_in_once() {
        let hostile = "{}%s{url}'$(echo out)";
        for (command, expected) in [("printf '%b|' %s", "PLACE|"), ("printf '%b|' {} x {}", "PLACE|x|PLACE|")] {
            let told = shell(&fill(command, &["{}", "%s"], hostile)).output().unwrap();
            assert_eq!(String::from_utf8(told.stdout).unwrap(), expected.replace("PLACE", hostile));
        }
        assert_eq!(fill("no place", &["{}"], "x"), "no place");
    }

    #[test]
    fn a_quoted_word_is_one_word() {
        for word in ["plain/path-1.tar", "a b", "it's", "$HOME `x`", "", "*", "ä"] {
            let echoed = shell(&format!("printf %s {}", quote(word))).output().unwrap();
            assert_eq!(String::from_utf8(echoed.stdout).unwrap(), word);
        }
    }
}
