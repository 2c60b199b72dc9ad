//! What runs the tasks of a job: one file an engine.

mod allocation;
mod driver;
mod follow;
mod k8s;
mod live;
mod local;
mod slurm;
mod submission;
mod ties;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tarpipe::cli::Outcome;
use tarpipe::messages;
use tarpipe::run::signals;
use tarpipe::sink;
use tarpipe::tally::{MaxFailures, Tally, counted};

use crate::bundle;
use crate::folder::Folder;
use crate::job::Job;
use crate::settings::Engine;
use crate::survey::{Standing, Survey};
use crate::worker;

pub use driver::is_driven;
pub use live::{cancel, live};
pub use submission::{Submission, TaskState, TaskStates};

/// Between two questions whether a run is over, at first and at last; longer where an answer takes long.
const SOON: Duration = Duration::from_millis(500);
const LATER: Duration = Duration::from_secs(10);
const LAZY: u32 = 3;

/// Runs what is to be run, to its end or until it is handed over.
pub fn run(mut job: Job) -> Result<Outcome> {
    if job.todo.is_empty() {
        messages::detail(&format!("all {} are done", counted(job.items.count(), "item")));
        return Ok(Tally::of("item").into());
    }
    driver::await_orphans(&job.folder)?;
    if job.settings.on != Engine::Local {
        follow::start(&job)?;
    }
    if let Some(submission) = job.live.take() {
        return live::join(job, &submission);
    }
    match job.settings.on {
        Engine::Local => return local::run(&job),
        Engine::Slurm if job.settings.interactive => allocation::run(&job)?,
        Engine::Slurm | Engine::K8s => {
            let submission = match job.settings.on {
                Engine::Slurm => slurm::submit(&job)?,
                _ => k8s::submit(&job)?,
            };
            drop(job.lock.take()); // the engine has it all: others may wait for it too, or cancel it
            if !job.settings.wait {
                return hand_over(&job, &submission);
            }
            wait(&job, &submission)?;
        }
        Engine::Spark | Engine::Ray => driver::run(&job)?,
    }
    judge(&job)
}

/// Prints the exact scripts or manifests.
pub fn dry_run(job: &Job) -> Result<Outcome> {
    let text = match job.settings.on {
        Engine::Local => local::script(job)?,
        Engine::Slurm => slurm::dry_run(job)?,
        Engine::K8s => k8s::dry_run(job)?,
        Engine::Spark | Engine::Ray => driver::dry_run(job)?,
    };
    sink::write_text("-", &text)?;
    Ok(Outcome::default())
}

/// The engine goes on by itself.
fn hand_over(job: &Job, submission: &Submission) -> Result<Outcome> {
    let what = counted(job.todo.len() as u64, "item");
    messages::notice(&format!(
        "{what} handed to {} as {} (see shardrun status {})",
        submission.engine.name(),
        submission.ids(),
        job.folder.path().display()
    ));
    Ok(Outcome::default())
}

/// The engine has it already.
fn hand_over_again(job: &Job, submission: &Submission) -> Result<Outcome> {
    let folder = job.folder.path().display();
    messages::notice(&format!(
        "{folder}: already running on {} as {}: nothing is submitted (see shardrun status {folder})",
        submission.engine.name(),
        submission.ids()
    ));
    Ok(Outcome::default())
}

/// Waits for the engine. Whoever loses patience leaves the run going on.
fn wait(job: &Job, submission: &Submission) -> Result<()> {
    let folder = job.folder.path().display().to_string();
    signals::before_end(move |_| {
        messages::notice(&format!("the run goes on (see shardrun status {folder}, shardrun cancel {folder})"))
    });
    let mut troubles = Troubles::default();
    let (mut pause, mut misses) = (SOON, 0);
    loop {
        let asked = Instant::now();
        match live::is_alive(&job.folder, submission) {
            Ok(false) => return submission.set_over(),
            Ok(true) => misses = 0,
            // A controller that restarts is no end of the run.
            Err(err) if misses < 30 => {
                misses += 1;
                messages::detail(&format!("{err:#}; asking again"));
            }
            Err(err) => return Err(err),
        }
        if live::stop_if_failed(job, submission)? {
            return Ok(());
        }
        troubles.tell(submission);
        std::thread::sleep(pause.max(asked.elapsed() * LAZY));
        pause = (pause * 3 / 2).min(LATER);
    }
}

/// Reasons why tasks do not start, told to whoever waits for them.
struct Troubles {
    told: BTreeSet<String>,
    next: Instant,
}

impl Default for Troubles {
    fn default() -> Self {
        Troubles { told: BTreeSet::new(), next: Instant::now() + LATER }
    }
}

impl Troubles {
    /// Tells those that are new, now and then.
    fn tell(&mut self, submission: &Submission) {
        if Instant::now() < self.next {
            return;
        }
        for reason in reasons(submission) {
            // How many wait for the same reason changes all the time.
            let what = reason.split_once(": ").map_or(reason.as_str(), |(_, what)| what);
            let kind = what.split_once(": ").map_or(what, |(kind, _)| kind);
            if self.told.insert(kind.to_owned()) {
                messages::notice(&format!("{} does not start {reason}", submission.engine.name()));
            }
        }
        self.next = Instant::now() + 2 * LATER;
    }
}

/// Why tasks of a submission wait that may wait for ever; nothing where the engine cannot be asked.
pub fn reasons(submission: &Submission) -> Vec<String> {
    let reasons = match submission.engine {
        Engine::Slurm => slurm::reasons(submission),
        Engine::K8s => k8s::reasons(submission),
        Engine::Local | Engine::Spark | Engine::Ray => Ok(Vec::new()),
    };
    reasons.unwrap_or_default()
}

/// What became of the items that an engine was given.
fn judge(job: &Job) -> Result<Outcome> {
    let survey = Survey::take(&job.folder)?;
    let mut tally = Tally::of("item");
    let mut left = 0;
    // An output that is there from before says nothing about an item that was to run again.
    let since =
        Submission::all(&job.folder)?.last().filter(|_| job.head.limits.redo).map(|last| bundle::time(&last.path));
    let is_stale = |index| since.is_some_and(|since| !survey.has_ended(index, since));
    for &index in &job.todo {
        match (survey.standings[index as usize], &survey.records[index as usize]) {
            (Standing::Done, _) if is_stale(index) => left += 1,
            (Standing::Done, _) => tally.done(),
            (Standing::Failed, Some(record)) => {
                worker::note(&mut tally, record);
                worker::tell(record);
            }
            _ => left += 1,
        }
    }
    let most = job.head.limits.max_failures.unwrap_or(0);
    if left > 0 && tally.count_failed() <= most {
        bail!(
            "{} not run (see shardrun status {}; the same command runs what is missing)",
            counted(left, "item"),
            job.folder.path().display()
        );
    }
    Ok(Outcome { tally, max_failures: Some(MaxFailures::Count(most)) })
}

/// What the engine says about the tasks of a submission; nothing where it has forgotten them or says nothing.
pub fn states(submission: &Submission) -> TaskStates {
    match submission.engine {
        Engine::Slurm => slurm::states(submission),
        Engine::K8s => k8s::states(submission),
        Engine::Local | Engine::Spark | Engine::Ray => TaskStates::new(),
    }
}

/// Takes results into the run folder that only the engine has: of a submission that is over, they were taken already.
/// Where it cannot be asked, what is known stands.
pub fn collect(folder: &Folder, submissions: &[Submission]) -> Result<()> {
    for submission in submissions.iter().filter(|submission| submission.engine == Engine::K8s && !submission.is_over())
    {
        if let Err(err) = k8s::collect(folder, submission) {
            messages::notice(&format!("{err:#}; going by what is known"));
        }
    }
    Ok(())
}

/// What an item said, where only the engine has it.
pub fn logs(folder: &Folder, index: u64) -> Option<String> {
    let submissions = Submission::all(folder).ok()?;
    let submissions = submissions.iter().rev().filter(|submission| submission.engine == Engine::K8s);
    submissions.filter_map(|submission| k8s::logs(submission, submission.task_of(index)?)).next()
}
