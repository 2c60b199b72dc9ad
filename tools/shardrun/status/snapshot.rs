//! The status of every item of a run, from existing outputs, the job log and the engine.

use std::path::Path;

use anyhow::{Context, Result};
use tarpipe::messages::secret::mask;

use crate::shardrun::engine::{self, Submission};
use crate::shardrun::plan::RunPlan;
use crate::shardrun::plan::items::RunItems;
use crate::shardrun::run::existing;
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{self, ItemRecord, ItemStatus, is_done};
use crate::shardrun::run::lock::LockState;
use crate::shardrun::settings::{RunSettings, use_endpoint};
use crate::shardrun::task::bundle;

/// The state of a run at one moment.
pub struct RunSnapshot {
    /// Folder of the run.
    pub folder: RunFolder,
    /// Plan of the run.
    pub plan: RunPlan,
    /// All items.
    pub items: RunItems,
    /// Latest record of every item. An item that the engine lost has a record that says so.
    pub records: Vec<Option<ItemRecord>>,
    /// Status of every item.
    pub statuses: Vec<ItemStatus>,
    /// Whether the run is active.
    pub is_live: bool,
    /// Why tasks do not start.
    pub waits: Vec<String>,
}

/// Adds the values of items, which the short results of pods leave out.
fn name_shards(records: &mut [Option<ItemRecord>], items: &RunItems) {
    for record in records.iter_mut().flatten().filter(|record| record.shard.is_empty()) {
        record.shard = items.with(record.item, |item| mask(item.value).into_owned());
    }
}

impl RunSnapshot {
    /// Takes a snapshot; queries the engine.
    pub fn take(folder: &RunFolder) -> Result<Self> {
        let plan = folder.plan()?.context("plan.json is missing")?;
        let items = folder.items(&plan)?;
        let settings: RunSettings = folder.read_json("settings.json")?.unwrap_or_default();
        use_endpoint(settings.endpoint.as_deref());
        let submissions = Submission::all(folder)?;
        engine::collect(folder, &submissions);
        let mut records = job_log::latest(folder, plan.count)?;
        name_shards(&mut records, &items);
        let done = existing::find_done(&plan, &items, |index| is_done(&records[index as usize]))?;
        let status = |(done, record): (&bool, &Option<ItemRecord>)| match record {
            _ if *done => ItemStatus::Done,
            Some(record) if record.state == ItemStatus::Failed => ItemStatus::Failed,
            _ => ItemStatus::Left,
        };
        let statuses = done.iter().zip(&records).map(status).collect();
        let mut snapshot =
            RunSnapshot { folder: folder.clone(), plan, items, records, statuses, is_live: false, waits: Vec::new() };
        snapshot.read_local(&submissions)?;
        for submission in &submissions {
            snapshot.query_engine(submission)?;
        }
        Ok(snapshot)
    }

    /// Number of items with this status.
    pub fn count(&self, status: ItemStatus) -> u64 {
        self.statuses.iter().filter(|&&found| found == status).count() as u64
    }

    /// The items with this status.
    pub fn with_status(&self, status: ItemStatus) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.statuses).filter(move |(_, found)| **found == status).map(|(index, _)| index)
    }

    /// Finds running items of a local process, and of workers that can see the run folder.
    fn read_local(&mut self, submissions: &[Submission]) -> Result<()> {
        let driven: Vec<&Submission> = submissions.iter().filter(|submission| submission.is_driven()).collect();
        if matches!(self.folder.lock_state()?, LockState::Free) && driven.is_empty() {
            return Ok(());
        }
        self.is_live = true;
        for (status, record) in self.statuses.iter_mut().zip(&self.records) {
            if *status == ItemStatus::Left && record.as_ref().is_some_and(|record| record.state == ItemStatus::Running)
            {
                *status = ItemStatus::Running; // reported by a driver
            }
        }
        self.read_started(&self.folder.path().join("started"));
        for submission in driven {
            let hosts = std::fs::read_dir(submission.path.join("started")).into_iter().flatten().flatten();
            hosts.for_each(|host| self.read_started(&host.path()));
        }
        Ok(())
    }

    /// Reads lines with an item and its start time.
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
        if at < self.statuses.len() && self.statuses[at] != ItemStatus::Done && !self.has_ended(index, since) {
            self.statuses[at] = ItemStatus::Running;
        }
    }

    /// Whether an item has a record from after this time.
    pub fn has_ended(&self, index: u64, since: f64) -> bool {
        // Both clocks are rounded to milliseconds.
        self.records[index as usize].as_ref().is_some_and(|record| record.start + record.seconds + 0.002 >= since)
    }

    /// Updates the items of a submission by the states that the engine reports.
    fn query_engine(&mut self, submission: &Submission) -> Result<()> {
        if self.statuses.iter().all(|&status| status == ItemStatus::Done) {
            return Ok(());
        }
        let reports = submission.engine().task_reports(submission);
        if reports.is_empty() {
            return Ok(());
        }
        let is_live = reports.values().any(|task| matches!(task.status, ItemStatus::Left | ItemStatus::Running));
        if is_live {
            self.is_live = true;
            self.waits.extend(submission.engine().reasons(submission).unwrap_or_default());
        }
        let since = bundle::written_at(&submission.path);
        bundle::each_task(&submission.path, |task, items| {
            let open: Vec<u64> = items
                .iter()
                .map(|(index, _)| *index)
                .filter(|&index| self.statuses[index as usize] != ItemStatus::Done && !self.has_ended(index, since))
                .collect();
            let Some(&first) = open.first() else { return };
            let Some(task) = reports.get(&task) else { return };
            match task.status {
                ItemStatus::Running => self.statuses[first as usize] = ItemStatus::Running,
                ItemStatus::Left => open.iter().for_each(|&index| self.statuses[index as usize] = ItemStatus::Left),
                ItemStatus::Failed => self.set_lost(&open, submission, &task.how, since),
                ItemStatus::Done => {}
            }
        })
    }

    fn set_lost(&mut self, items: &[u64], submission: &Submission, how: &str, since: f64) {
        for &index in items {
            let message = format!("{} ended its task: {how}", submission.engine.name());
            self.records[index as usize] = Some(ItemRecord::lost(index, self.items.value(index), message, since));
            self.statuses[index as usize] = ItemStatus::Failed;
        }
    }
}
