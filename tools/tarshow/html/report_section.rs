//! The section about reports of earlier runs: failure codes, and how speed and failures changed over the run.

use tarpipe::html::{ChartMark, Escaped, grouped, line, percent};
use tarpipe::value::size;

use super::run_report::{RowSlice, RunReport};

/// The section as HTML, with an article per report; empty if there are none.
pub fn section(reports: &[RunReport]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let each: String = reports.iter().map(report).collect();
    format!("<section aria-labelledby=\"reports-title\"><h2 id=\"reports-title\">Reports</h2>{each}</section>")
}

fn report(report: &RunReport) -> String {
    let RunReport { rows, failed, bytes, .. } = report;
    let done = rows - failed;
    let mut codes: Vec<(&String, &u64)> = report.codes.iter().collect();
    codes.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let code_row = |(code, n): (&String, &u64)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td><meter min=\"0\" max=\"{failed}\" value=\"{n}\">{n}</meter></td></tr>",
            Escaped(code),
            grouped(*n),
            percent(*n, *rows)
        )
    };
    let table = match codes.is_empty() {
        true => "<p class=\"note\">Nothing failed.</p>".to_owned(),
        false => format!(
            "<table class=\"codes\"><thead><tr><th scope=\"col\">Failure code</th><th scope=\"col\">Rows</th><th scope=\"col\">Share</th><th scope=\"col\"><span class=\"away\">Bar</span></th></tr></thead><tbody>{}</tbody></table>",
            codes.into_iter().map(code_row).collect::<String>()
        ),
    };
    format!(
        "<article class=\"report\"><h3>{}</h3><p class=\"note\">{} rows: {} succeeded ({}), {} failed; {}.</p>{table}<div class=\"charts\">{}</div></article>",
        Escaped(&report.name),
        grouped(*rows),
        grouped(done),
        percent(done, *rows),
        grouped(*failed),
        size::show(*bytes),
        charts_along_rows(report)
    )
}

/// Charts of speed and failures over the rows of a report; reports contain no times.
fn charts_along_rows(report: &RunReport) -> String {
    if report.slices.len() < 2 {
        return String::new();
    }
    let marks = |value: &dyn Fn(&RowSlice) -> (f64, String)| -> Vec<ChartMark> {
        let mark = |(at, slice): (usize, &RowSlice)| {
            let from = at as u64 * report.slice_rows;
            let range = format!("rows {} – {}", grouped(from + 1), grouped(from + slice.rows));
            let (value, shown) = value(slice);
            ChartMark { label: grouped(from + 1), range, value, shown }
        };
        report.slices.iter().enumerate().map(mark).collect()
    };
    let mut figures = String::new();
    if report.slices.iter().any(|slice| slice.milliseconds > 0) {
        let speed = |slice: &RowSlice| {
            let rate = slice.bytes as f64 * 1000.0 / slice.milliseconds.max(1) as f64;
            (rate / 1e6, format!("{}/s", size::show(rate as u64)))
        };
        figures += &line("Throughput", "MB per second per request, over the rows of the report", &marks(&speed));
    }
    if report.failed > 0 {
        let share = |slice: &RowSlice| {
            (slice.failed as f64 * 100.0 / slice.rows.max(1) as f64, percent(slice.failed, slice.rows))
        };
        figures += &line("Failures", "percent of rows, over the rows of the report", &marks(&share));
    }
    figures
}
