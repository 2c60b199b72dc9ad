//! Spark and Ray: `driver.py`, a small Python program, submits the tasks to the cluster and passes the results to `shardrun
//! record`. It is embedded here and copied to the folder of each submission.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tarpipe::cli::{Outcome, Usage};
use tarpipe::messages;
use tarpipe::run::program;
use tarpipe::run::shell;
use tarpipe::run::signals;
use tarpipe::run::watched::{self, wait_readable};

use super::submission::Submission;
use super::{Engine, driver_locks, outcome_of};
use crate::shardrun::engine::external::cannot_start;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::pending::PendingRun;

const DRIVER: &str = include_str!("driver.py");
/// Time that a driver has to end its tasks when a signal ends this process.
const TERM_GRACE: Duration = Duration::from_secs(30);
/// How long to wait for a driver that was cancelled or whose shardrun has ended: it checks every second, and then needs up to
/// `TERM_GRACE`.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Exit status of the driver if its Python package is missing.
const MISSING_PACKAGE: i32 = 4;

/// An engine that a driver submits to.
pub struct Driver {
    /// The Python package that the driver needs.
    package: &'static str,
}

/// Spark.
pub const SPARK: Driver = Driver { package: "pyspark" };
/// Ray.
pub const RAY: Driver = Driver { package: "ray" };

impl Engine for Driver {
    fn run(&self, pending: PendingRun) -> Result<Outcome> {
        run(&pending, self.package)?;
        outcome_of(&pending)
    }

    fn dry_run(&self, pending: &PendingRun) -> Result<String> {
        let submission = Submission::for_dry_run(pending);
        Ok(format!("{}\n", shell::join(&command_line(pending, &submission)?)))
    }

    fn is_driven(&self, submission: &Submission) -> bool {
        driver_locks::has_owner(&submission.path) || driver_locks::has_driver(&submission.path)
    }

    /// Waits for the end as well: nothing may run at the same time.
    fn cancel(&self, _: &RunFolder, submission: &Submission) -> Result<()> {
        driver_locks::cancel(&submission.path)?;
        wait_for(submission)
    }
}

/// Runs all tasks and waits for them.
fn run(pending: &PendingRun, package: &str) -> Result<()> {
    let submission = Submission::create(pending)?;
    let driver = submission.path.join("driver.py");
    std::fs::write(&driver, DRIVER).with_context(|| driver.display().to_string())?;
    submission.save()?;
    let lock = driver_locks::own(&submission.path)?;
    let argv = command_line(pending, &submission)?;
    let mut command = Command::new(&argv[0]);
    // Its stdout is not data, but ours may be.
    command.args(&argv[1..]).stdin(Stdio::null()).stdout(std::io::stderr());
    let (mut child, exit) = watched::spawn(&mut command).map_err(|err| cannot_start(&argv[0], err))?;
    let (id, path) = (child.id(), submission.path.clone());
    signals::on_signal(move |_| {
        _ = lock.unlock(); // for a driver outside the launcher's process group
        signals::signal_group(id, Signal::TERM);
        let until = Instant::now() + TERM_GRACE;
        _ = wait_readable(&exit, Some(until));
        driver_locks::wait_for_driver(&path, Some(until.saturating_duration_since(Instant::now())));
    });
    let status = child.wait()?;
    signals::park_if_signalled();
    signals::release_group(id);
    // A launcher that lost the connection to its cluster may leave the driver running there.
    if driver_locks::has_driver(&submission.path) {
        driver_locks::wait_for_driver(&submission.path, None);
        signals::park_if_signalled();
        return Ok(());
    }
    let name = pending.settings.on.name();
    match status.code() {
        Some(0) => Ok(()),
        Some(MISSING_PACKAGE) => {
            bail!("{name} is not installed for {}; run pip install {package}", argv[0])
        }
        _ => bail!("the {name} driver failed ({status})"),
    }
}

/// Waits for drivers whose shardrun has ended: they are ending their tasks, and nothing may run at the same time.
pub fn await_orphans(folder: &RunFolder) -> Result<()> {
    for submission in Submission::all(folder)?.iter().filter(|submission| submission.is_driven()) {
        let path = &submission.path;
        if driver_locks::has_owner(path) {
            bail!("{}: another shardrun is working on this run", folder.path().display());
        }
        messages::notice(&format!("waiting for the driver of an earlier shardrun to end ({})", path.display()));
        wait_for(submission)?;
    }
    Ok(())
}

fn wait_for(submission: &Submission) -> Result<()> {
    let started = Instant::now();
    while submission.is_driven() {
        if started.elapsed() > MAX_WAIT {
            let (path, name) = (submission.path.display(), submission.engine.name());
            bail!("{path}: the {name} driver is still running after {} s", MAX_WAIT.as_secs());
        }
        std::thread::sleep(driver_locks::POLL_INTERVAL);
    }
    Ok(())
}

fn command_line(pending: &PendingRun, submission: &Submission) -> Result<Vec<String>> {
    let settings = &pending.settings;
    let launcher = settings.launcher.as_deref().unwrap_or("python3");
    let Some(mut argv) = shlex::split(launcher).filter(|argv| !argv.is_empty()) else {
        bail!(Usage(format!("--launcher '{launcher}': invalid command")));
    };
    let text = |path: &std::path::Path| path.to_string_lossy().into_owned();
    argv.extend([text(&submission.path.join("driver.py")), settings.on.name().into(), text(&submission.path)]);
    argv.extend(settings.engine_arg.iter().cloned());
    let run = submission.path.parent().unwrap_or(&submission.path);
    argv.extend(["--run".into(), text(run)]);
    argv.extend(["--shardrun".into(), shell::join(&program::command("shardrun")?)]);
    argv.extend(["-j".into(), settings.jobs.to_string()]);
    for (flag, value) in [("--master", &settings.master), ("--address", &settings.address)] {
        argv.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
    }
    argv.push("--owned".into());
    Ok(argv)
}
