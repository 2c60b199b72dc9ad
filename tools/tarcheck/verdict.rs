//! The verdict on a shard, as a table for people and as JSON for programs.

use serde_json::{Value, json as object};
use tarpipe::run::shell;
use tarpipe::sample::fields::FieldCounts;
use tarpipe::sample::index;
use tarpipe::value::size;

use crate::tarcheck::loaders::{FieldSets, Loader, LoaderResult};

/// One fault.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The reason code.
    pub code: &'static str,
    /// Byte offset in the decompressed shard.
    pub offset: u64,
    /// The key of the sample, if it is known.
    pub sample: Option<String>,
    /// A description for people.
    pub what: String,
    /// The command that repairs it, with {} for the shard.
    pub repair: Option<String>,
}

impl Finding {
    pub fn line(&self, shard: &str) -> String {
        let sample = self.sample.as_ref().map(|key| format!("sample {key}: ")).unwrap_or_default();
        let repair = self.repair_of(shard).map(|command| format!("; repair: {command}")).unwrap_or_default();
        format!("{shard}: byte {}: {sample}{}{repair}", self.offset, self.what)
    }

    fn repair_of(&self, shard: &str) -> Option<String> {
        self.repair.as_ref().map(|command| shell::fill(command, &["{}"], shard))
    }

    fn json(&self, shard: &str) -> Value {
        let mut json = object!({"code": self.code, "offset": self.offset, "sample": self.sample, "what": self.what});
        if let Some(command) = self.repair_of(shard) {
            json["repair"] = command.into();
        }
        json
    }
}

/// The contents and the faults of one shard.
#[derive(Debug, Default)]
pub struct Verdict {
    pub shard: String,
    pub samples: u64,
    pub members: u64,
    /// Size of the archive, decompressed.
    pub bytes: u64,
    pub stored_bytes: u64,
    pub sha256: Option<String>,
    pub fields: FieldCounts,
    /// Members that belong to no sample; not faults.
    pub dropped: u64,
    pub faults: u64,
    /// The described faults: the first ones, up to --show.
    pub findings: Vec<Finding>,
    pub index: Option<String>,
    /// What each loader of --for makes of the shard.
    pub loaders: Vec<LoaderResult>,
    /// The sets of fields of its samples, for --for hf.
    pub field_sets: Option<FieldSets>,
}

impl Verdict {
    /// Counts a fault, and keeps its description if there are fewer than `show`.
    pub fn add(&mut self, finding: Finding, show: usize) {
        self.faults += 1;
        if self.findings.len() < show {
            self.findings.push(finding);
        }
    }

    pub fn wids(&self) -> Value {
        index::wids_shard(&self.shard, self.samples, self.stored_bytes, self.sha256.as_deref().unwrap_or_default())
    }

    fn json(&self) -> Value {
        let mut json = object!({
            "shard": self.shard, "samples": self.samples, "members": self.members, "bytes": self.bytes,
            "stored_bytes": self.stored_bytes, "sha256": self.sha256, "fields": null,
            "dropped": self.dropped, "faults": self.faults,
            "findings": self.findings.iter().map(|finding| finding.json(&self.shard)).collect::<Vec<_>>(),
        });
        self.fields.put_into(&mut json);
        json
    }
}

/// All verdicts as one object.
pub fn json(verdicts: &[Verdict], loaders: &[Loader]) -> Value {
    let sum = |count: fn(&Verdict) -> u64| verdicts.iter().map(count).sum::<u64>();
    let mut json = object!({
        "shards": verdicts.iter().map(Verdict::json).collect::<Vec<_>>(),
        "samples": sum(|verdict| verdict.samples),
        "bytes": sum(|verdict| verdict.bytes),
        "faults": sum(|verdict| verdict.faults),
    });
    for &loader in loaders {
        json["loaders"][loader.name()] = of_loader(verdicts, loader);
    }
    json
}

/// What a loader makes of all shards: whether it loads them, and the number of samples that it loses, if that is known.
fn of_loader(verdicts: &[Verdict], loader: Loader) -> Value {
    let of = || verdicts.iter().flat_map(|verdict| &verdict.loaders).filter(move |result| result.loader == loader);
    let (fails, lost) = (of().any(|result| result.fails > 0), of().map(|result| result.lost).sum::<u64>());
    let lost_more = of().any(|result| result.lost_more);
    let verdict = match (fails, lost > 0 || lost_more) {
        (true, _) => "fails",
        (false, true) => "loses",
        (false, false) => "loads",
    };
    object!({"verdict": verdict, "lost": (!fails && !lost_more).then_some(lost)})
}

/// All verdicts as a table, with a total if there are several.
pub fn table(verdicts: &[Verdict]) -> String {
    let mut rows = vec![["SAMPLES", "MEMBERS", "DROPPED", "SIZE", "FAULTS", "SHARD", "FIELDS"].map(str::to_owned)];
    for verdict in verdicts {
        let fields: Vec<&str> = verdict.fields.names().take(8).collect();
        let more = if verdict.fields.names().nth(8).is_some() { " …" } else { "" };
        let fields = format!("{}{more}", fields.join(" "));
        rows.push(row(verdict, &verdict.shard, &fields));
    }
    if verdicts.len() > 1 {
        let mut total = Verdict::default();
        for verdict in verdicts {
            total.samples += verdict.samples;
            total.members += verdict.members;
            total.dropped += verdict.dropped;
            total.bytes += verdict.bytes;
            total.faults += verdict.faults;
        }
        rows.push(row(&total, "total", ""));
    }
    align(&rows)
}

fn row(verdict: &Verdict, shard: &str, fields: &str) -> [String; 7] {
    let [samples, members, dropped, faults] =
        [verdict.samples, verdict.members, verdict.dropped, verdict.faults].map(|n| n.to_string());
    let shard = tarpipe::messages::escape(shard);
    [samples, members, dropped, size::show(verdict.bytes), faults, shard, tarpipe::messages::escape(fields)]
}

/// Aligns numbers right and names left.
fn align(rows: &[[String; 7]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let numbers = (0..5).map(|i| format!("{:>w$}  ", row[i], w = widths[i])).collect::<String>();
        let line = format!("{numbers}{:<w$}  {}", row[5], row[6], w = widths[5]);
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
