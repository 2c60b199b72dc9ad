//! Ends the commands of a process that was killed. KILL cannot be handled, so a
//! second process waits for the end of the first one and then ends everything
//! that its commands have started. Used by shardrun, whose pipelines write
//! outputs and would otherwise go on beside those of the next run.
//!
//! The two are connected by a pipe that only the first one can write to: the
//! kernel closes it however that process ends.

use std::io::{self, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::run::procfs;
use crate::run::signals;
use crate::run::strays::{self, AskedToEnd};

/// How long to wait for killed processes to disappear.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// The interval between two looks at all processes.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process that ends our commands if we are killed. It ends when this value
/// is dropped.
pub struct OrphanGuard(PipeWriter);

impl OrphanGuard {
    /// Starts a guard by this command, to which one argument is added; it must
    /// call [`guard`] with that argument. None if `/proc` is missing, without
    /// which nothing can be found.
    ///
    /// # Errors
    ///
    /// The command cannot be started, or the system is out of threads or file
    /// descriptors.
    pub fn start(argv: &[String]) -> io::Result<Option<Self>> {
        let Some((program, args)) = argv.split_first().filter(|_| procfs::own().is_some()) else { return Ok(None) };
        let (theirs, ours) = io::pipe()?;
        let mut command = Command::new(program);
        // In a group of its own, so that signals to ours do not end it before us.
        command.args(args).arg(strays::run()).current_dir("/").process_group(0);
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let (sender, started) = mpsc::channel();
        // Not by the main thread, whose children are looked through after each command.
        std::thread::Builder::new().name("orphans".into()).spawn(move || {
            let until_guarded = strays::spawning();
            let child = command.spawn().inspect(|child| signals::guard_group(child.id()));
            drop((command, until_guarded));
            match child {
                Ok(mut child) => {
                    _ = sender.send(Ok(()));
                    _ = child.wait();
                    signals::release_group(child.id());
                }
                Err(err) => _ = sender.send(Err(err)),
            }
        })?;
        started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Some(OrphanGuard(ours)))
    }
}

impl Drop for OrphanGuard {
    fn drop(&mut self) {
        _ = self.0.write_all(b"\n");
    }
}

/// The guard's side: waits for the end of the process that started it. If that
/// was killed, ends all that its commands have started: TERM, and KILL after
/// the grace period.
pub fn guard(run: &str, grace: Duration) {
    if io::stdin().read(&mut [0]).is_ok_and(|n| n > 0) {
        return;
    }
    let mut asked = AskedToEnd::default();
    let started = Instant::now();
    loop {
        let left = strays::started_by(run);
        if left.is_empty() || started.elapsed() > grace + LAST_MOMENTS {
            return;
        }
        if started.elapsed() <= grace {
            asked.ask(&left);
        } else {
            left.iter().for_each(|process| strays::end(process, Signal::KILL));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
