//! `shardrun report`: writes a run as a self-contained HTML page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use tarpipe::cli::Outcome;
use tarpipe::sink;
use tarpipe::value::size;

use super::summary::{RunSummary, clock};
use crate::shardrun::run::folder::RunFolder;
use crate::shardrun::run::job_log::{ItemRecord, ItemStatus};
use crate::shardrun::status::snapshot::RunSnapshot;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;width:100%}td,th{padding:.2em .6em;border-bottom:1px solid #ccc;text-align:left}\
td.n{text-align:right}pre{margin:0;white-space:pre-wrap;color:#a00}.bar{display:flex;height:1.2em}.bar div{height:100%}";

/// Columns of the histogram of durations.
const COLUMNS: usize = 40;

/// Writes the page.
pub fn report(dir: Option<&Path>, name: &str) -> Result<Outcome> {
    let folder = RunFolder::find(dir)?;
    let snapshot = RunSnapshot::take(&folder)?;
    sink::write_text(name, &page(&snapshot)?)?;
    Ok(Outcome::default())
}

fn page(snapshot: &RunSnapshot) -> Result<String> {
    let summary = RunSummary::of(snapshot);
    let ran: Vec<&ItemRecord> = snapshot.records.iter().flatten().filter(|record| record.attempts > 0).collect();
    let mut html = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    write!(html, "<title>{0}</title><style>{STYLE}</style><h1>{0}</h1>", escape(&summary.run))?;
    write!(html, "<pre style=\"color:inherit\">{}</pre>", escape(&snapshot.plan.pipeline))?;
    counts(&mut html, &summary)?;
    durations(&mut html, &ran)?;
    hosts(&mut html, &ran)?;
    failures(&mut html, &summary)?;
    slowest(&mut html, &summary)?;
    html.push_str("</html>\n");
    Ok(html)
}

fn counts(html: &mut String, summary: &RunSummary) -> Result<()> {
    let parts = [
        (summary.done, "done", "#3a3"),
        (summary.running, "running", "#38c"),
        (summary.failed, "failed", "#c33"),
        (summary.left, "left", "#ddd"),
    ];
    html.push_str("<div class=\"bar\">");
    for (n, name, colour) in parts {
        write!(html, "<div title=\"{n} {name}\" style=\"background:{colour};flex:{n}\"></div>")?;
    }
    html.push_str("</div><p>");
    let counts: Vec<String> = parts.iter().map(|(n, name, _)| format!("{n} {name}")).collect();
    write!(
        html,
        "{} of {} items; stored {}, {} samples",
        counts.join(", "),
        summary.count,
        size::show(summary.bytes),
        summary.samples
    )?;
    if let Some(eta) = summary.eta {
        write!(html, "; {} left", clock(eta))?;
    }
    html.push_str("</p>");
    Ok(())
}

/// Histogram of the durations of items.
fn durations(html: &mut String, ran: &[&ItemRecord]) -> Result<()> {
    let most = ran.iter().map(|record| record.seconds).fold(0.0, f64::max);
    if ran.is_empty() || most <= 0.0 {
        return Ok(());
    }
    let mut columns = [0u32; COLUMNS];
    for record in ran {
        columns[((record.seconds / most * COLUMNS as f64) as usize).min(COLUMNS - 1)] += 1;
    }
    let highest = f64::from(columns.iter().copied().max().unwrap_or(1));
    write!(
        html,
        "<h2>Seconds per item, up to {most:.1}</h2><svg viewBox=\"0 0 {} 100\" width=\"100%\" height=\"120\">",
        COLUMNS * 10
    )?;
    for (i, n) in columns.iter().enumerate() {
        let height = f64::from(*n) / highest * 98.0;
        let y = 100.0 - height;
        write!(
            html,
            "<rect x=\"{}\" y=\"{y:.1}\" width=\"9\" height=\"{height:.1}\" fill=\"#38c\"><title>{n}</title></rect>",
            i * 10
        )?;
    }
    html.push_str("</svg>");
    Ok(())
}

fn hosts(html: &mut String, ran: &[&ItemRecord]) -> Result<()> {
    let mut hosts: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for record in ran {
        let host = hosts.entry(&record.host).or_default();
        host.0 += u64::from(record.state == ItemStatus::Done);
        host.1 += u64::from(record.state == ItemStatus::Failed);
        host.2 += record.seconds;
    }
    html.push_str("<h2>Hosts</h2><table><tr><th>host<th>done<th>failed<th>busy");
    for (name, (done, failed, seconds)) in hosts {
        write!(
            html,
            "<tr><td>{}<td class=\"n\">{done}<td class=\"n\">{failed}<td class=\"n\">{}",
            escape(name),
            clock(seconds)
        )?;
    }
    html.push_str("</table>");
    Ok(())
}

fn failures(html: &mut String, summary: &RunSummary) -> Result<()> {
    if summary.failures.is_empty() {
        return Ok(());
    }
    write!(html, "<h2>Failed ({})</h2><table>", summary.failed)?;
    for failed in &summary.failures {
        let record = &failed.record;
        let why =
            format!("{}: {}", record.code.as_deref().unwrap_or("failed"), record.message.as_deref().unwrap_or(""));
        let stderr = failed.last_line.as_deref().unwrap_or("");
        write!(
            html,
            "<tr><td>{}<td>{}<td>{}<pre>{}</pre>",
            record.item,
            escape(&record.shard),
            escape(&why),
            escape(stderr)
        )?;
    }
    html.push_str("</table>");
    Ok(())
}

fn slowest(html: &mut String, summary: &RunSummary) -> Result<()> {
    html.push_str("<h2>Slowest</h2><table>");
    for record in &summary.slowest {
        write!(
            html,
            "<tr><td>{}<td>{}<td class=\"n\">{:.1} s<td>{}",
            record.item,
            escape(&record.shard),
            record.seconds,
            escape(&record.host)
        )?;
    }
    html.push_str("</table>");
    Ok(())
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
