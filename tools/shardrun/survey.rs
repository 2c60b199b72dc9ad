//! Where every item of a run stands: from the listing of outputs, the job log, and what the engine says.

use std::path::Path;

use anyhow::{Context, Result};
use tarpipe::messages::secret::mask;

use crate::bundle;
use crate::done;
use crate::engine::{self, Submission, TaskState};
use crate::folder::Folder;
use crate::items::Items;
use crate::joblog::{self, Record, State, is_done};
use crate::lock::Held;
use crate::plan::Plan;
use crate::settings::{Settings, use_endpoint};

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its output is there.
    Done,
    /// It is at work.
    Running,
    /// It was tried for the last time.
    Failed,
    /// It is to be run.
    Left,
}

/// All of a run.
pub struct Survey {
    /// The run.
    pub folder: Folder,
    /// Its plan.
    pub plan: Plan,
    /// Its items.
    pub items: Items,
    /// The last record of every item; one that was lost by the engine has one that says so.
    pub records: Vec<Option<Record>>,
    /// Where every item stands.
    pub standings: Vec<Standing>,
    /// Whether somebody is at work on it.
    pub is_live: bool,
    /// Why tasks do not start.
    pub waits: Vec<String>,
}

/// Short messages of a pod leave the values of items out.
fn name_shards(records: &mut [Option<Record>], items: &Items) {
    for record in records.iter_mut().flatten().filter(|record| record.shard.is_empty()) {
        record.shard = items.with(record.item, |item| mask(item.value).into_owned());
    }
}

impl Survey {
    /// Looks at everything, and asks the engine.
    pub fn take(folder: &Folder) -> Result<Self> {
        let plan = folder.plan()?.context("there is no plan")?;
        let items = folder.items(&plan)?;
        let settings: Settings = folder.read_json("settings.json")?.unwrap_or_default();
        use_endpoint(settings.endpoint.as_deref());
        let submissions = Submission::all(folder)?;
        engine::collect(folder, &submissions)?;
        let mut records = joblog::latest(folder, plan.count)?;
        name_shards(&mut records, &items);
        let done = done::find(&plan, &items, |index| is_done(&records[index as usize]))?;
        let standing = |(done, record): (&bool, &Option<Record>)| match record {
            _ if *done => Standing::Done,
            Some(record) if record.state == State::Failed => Standing::Failed,
            _ => Standing::Left,
        };
        let standings = done.iter().zip(&records).map(standing).collect();
        let mut survey =
            Survey { folder: folder.clone(), plan, items, records, standings, is_live: false, waits: Vec::new() };
        survey.look_here(&submissions)?;
        for submission in &submissions {
            survey.ask(submission)?;
        }
        Ok(survey)
    }

    /// How many items stand so.
    pub fn count(&self, standing: Standing) -> u64 {
        self.standings.iter().filter(|&&found| found == standing).count() as u64
    }

    /// The items that stand so.
    pub fn which(&self, standing: Standing) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.standings).filter(move |(_, found)| **found == standing).map(|(index, _)| index)
    }

    /// What a process on this machine, or workers that see this folder, have begun and not ended.
    fn look_here(&mut self, submissions: &[Submission]) -> Result<()> {
        let driven: Vec<&Submission> = submissions.iter().filter(|submission| engine::is_driven(submission)).collect();
        if matches!(self.folder.holder()?, Held::Free) && driven.is_empty() {
            return Ok(());
        }
        self.is_live = true;
        for (standing, record) in self.standings.iter_mut().zip(&self.records) {
            if *standing == Standing::Left && record.as_ref().is_some_and(|record| record.state == State::Running) {
                *standing = Standing::Running; // as a driver says
            }
        }
        self.read_started(&self.folder.path().join("started"));
        for submission in driven {
            let hosts = std::fs::read_dir(submission.path.join("started")).into_iter().flatten().flatten();
            hosts.for_each(|host| self.read_started(&host.path()));
        }
        Ok(())
    }

    /// Lines with an item and the time at which it began.
    fn read_started(&mut self, path: &Path) {
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let Some((index, start)) = line.split_once(' ') else { continue };
            if let (Ok(index), Ok(start)) = (index.parse::<u64>(), start.parse()) {
                self.set_running(index, start);
            }
        }
    }

    fn set_running(&mut self, index: u64, since: f64) {
        let at = index as usize;
        if at < self.standings.len() && self.standings[at] != Standing::Done && !self.has_ended(index, since) {
            self.standings[at] = Standing::Running;
        }
    }

    /// Whether an item has a record from after this time.
    pub fn has_ended(&self, index: u64, since: f64) -> bool {
        // Both clocks are rounded to milliseconds.
        self.records[index as usize].as_ref().is_some_and(|record| record.start + record.seconds + 0.002 >= since)
    }

    /// What the engine says of the tasks of one submission.
    fn ask(&mut self, submission: &Submission) -> Result<()> {
        if self.standings.iter().all(|&standing| standing == Standing::Done) {
            return Ok(());
        }
        let states = engine::states(submission);
        if states.is_empty() {
            return Ok(());
        }
        let is_live = states.values().any(|state| matches!(state, TaskState::Waiting | TaskState::Running));
        if is_live {
            self.is_live = true;
            self.waits.extend(engine::reasons(submission));
        }
        let since = bundle::time(&submission.path);
        bundle::each(&submission.path, |task, items| {
            let open: Vec<u64> = items
                .iter()
                .map(|(index, _)| *index)
                .filter(|&index| self.standings[index as usize] != Standing::Done && !self.has_ended(index, since))
                .collect();
            let Some(&first) = open.first() else { return };
            match states.get(&task) {
                Some(TaskState::Running) => self.standings[first as usize] = Standing::Running,
                Some(TaskState::Waiting) => {
                    open.iter().for_each(|&index| self.standings[index as usize] = Standing::Left)
                }
                Some(TaskState::Ended(how)) if !is_clean(how) => self.set_lost(&open, submission, how, since),
                _ => {}
            }
        })
    }

    fn set_lost(&mut self, items: &[u64], submission: &Submission, how: &str, since: f64) {
        for &index in items {
            let message = format!("{} ended its task: {how}", submission.engine.name());
            self.records[index as usize] = Some(Record::lost(index, self.items.value(index), message, since));
            self.standings[index as usize] = Standing::Failed;
        }
    }
}

/// Whether items without a record are simply still to be run.
fn is_clean(how: &str) -> bool {
    ["completed", "cancelled", "preempted", "succeeded", "revoked"].contains(&how)
}
