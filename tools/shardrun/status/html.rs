//! `shardrun report`: writes a run as a self-contained HTML page.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use tarpipe::cli::Outcome;
use tarpipe::html::{self, Escaped, Histogram, bars, bins};
use tarpipe::sink;
use tarpipe::value::size;

use super::summary::{RunSummary, clock};
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{ItemRecord, ItemStatus};
use crate::shardrun::status::snapshot::RunSnapshot;

/// The approximate number of bars in the chart of durations.
const BARS: u64 = 40;

/// Writes the page.
pub fn report(dir: Option<&Path>, name: &str) -> Result<Outcome> {
    let folder = RunFolder::find(dir)?;
    let snapshot = RunSnapshot::take(&folder)?;
    sink::write_text(name, &page(&snapshot))?;
    Ok(Outcome::default())
}

fn page(snapshot: &RunSnapshot) -> String {
    let summary = RunSummary::of(snapshot);
    let ran: Vec<&ItemRecord> = snapshot.records.iter().flatten().filter(|record| record.attempts > 0).collect();
    let body = format!(
        "<main>\n<header class=\"top\"><h1>{}</h1></header>\n<pre>{}</pre>\n{}{}{}{}{}</main>\n",
        Escaped(&summary.run),
        Escaped(&snapshot.plan.pipeline),
        counts(&summary),
        durations(&ran),
        hosts(&ran),
        failures(&summary),
        slowest(&summary)
    );
    html::page(&summary.run, &body, "")
}

fn counts(summary: &RunSummary) -> String {
    let counts =
        [(summary.done, "done"), (summary.running, "running"), (summary.failed, "failed"), (summary.left, "left")];
    let tiles: String = counts.iter().map(|(n, name)| format!("<div><dt>{name}</dt><dd>{n}</dd></div>")).collect();
    let counts: Vec<String> = counts.iter().map(|(n, name)| format!("{n} {name}")).collect();
    let eta = summary.eta.map_or_else(String::new, |eta| format!("; {} left", clock(eta)));
    let stored = format!("stored {}, {} samples{eta}", size::show(summary.bytes), summary.samples);
    format!("<dl class=\"tiles\">{tiles}</dl><p>{} of {} items; {stored}</p>\n", counts.join(", "), summary.count)
}

/// A chart of the durations of items.
fn durations(ran: &[&ItemRecord]) -> String {
    let mut milliseconds = Histogram::default();
    ran.iter().for_each(|record| milliseconds.add((record.seconds * 1000.0) as u64));
    if milliseconds.most() == 0 {
        return String::new();
    }
    let bars_of = bins(&milliseconds.linear(BARS), |ms| format!("{:.1}", ms as f64 / 1000.0), " s");
    format!("<section>{}</section>\n", bars("Seconds per item", "items by duration", &bars_of))
}

fn hosts(ran: &[&ItemRecord]) -> String {
    let mut hosts: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for record in ran {
        let host = hosts.entry(&record.host).or_default();
        host.0 += u64::from(record.state == ItemStatus::Done);
        host.1 += u64::from(record.state == ItemStatus::Failed);
        host.2 += record.seconds;
    }
    let row = |(name, (done, failed, seconds)): (&str, (u64, u64, f64))| {
        [name.to_owned(), done.to_string(), failed.to_string(), clock(seconds)]
    };
    table("Hosts", ["host", "done", "failed", "busy"], hosts.into_iter().map(row))
}

fn failures(summary: &RunSummary) -> String {
    let rows = summary.failures.iter().map(|failed| {
        let record = &failed.record;
        let code = record.code.as_deref().unwrap_or("failed");
        let why = format!("{code}: {}", record.message.as_deref().unwrap_or(""));
        [record.item.to_string(), record.shard.clone(), why, failed.last_line.clone().unwrap_or_default()]
    });
    table(&format!("Failed ({})", summary.failed), ["item", "value", "failure", "last line of stderr"], rows)
}

fn slowest(summary: &RunSummary) -> String {
    let row = |record: &ItemRecord| {
        [record.item.to_string(), record.shard.clone(), format!("{:.1} s", record.seconds), record.host.clone()]
    };
    table("Slowest", ["item", "value", "time", "host"], summary.slowest.iter().map(row))
}

/// A section with a table; empty if there are no rows.
fn table(title: &str, head: [&str; 4], rows: impl Iterator<Item = [String; 4]>) -> String {
    let cells = |row: [String; 4]| row.iter().map(|cell| format!("<td>{}</td>", Escaped(cell))).collect::<String>();
    let rows: String = rows.map(|row| format!("<tr>{}</tr>", cells(row))).collect();
    if rows.is_empty() {
        return rows;
    }
    let head: String = head.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    format!(
        "<section><h2>{title}</h2><div class=\"scroll\"><table class=\"wide\"><thead><tr>{head}</tr></thead>\
         <tbody>{rows}</tbody></table></div></section>\n"
    )
}
