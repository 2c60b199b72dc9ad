//! What the reports of earlier runs say: codes of failure, and what changed along the way.

use tarpipe::value::size;

use super::chart::{Mark, line};
use super::markup::{Text, grouped, percent};
use super::reports::{Piece, Report};

/// The section with a part for each report; empty without any.
pub fn section(reports: &[Report]) -> String {
    if reports.is_empty() {
        return String::new();
    }
    let each: String = reports.iter().map(report).collect();
    format!("<section aria-labelledby=\"reports-title\"><h2 id=\"reports-title\">Reports</h2>{each}</section>")
}

fn report(report: &Report) -> String {
    let Report { rows, failed, bytes, .. } = report;
    let done = rows - failed;
    let mut codes: Vec<(&String, &u64)> = report.codes.iter().collect();
    codes.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let code_row = |(code, n): (&String, &u64)| {
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td><td><meter min=\"0\" max=\"{failed}\" value=\"{n}\">{n}</meter></td></tr>",
            Text(code),
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
        Text(&report.name),
        grouped(*rows),
        grouped(done),
        percent(done, *rows),
        grouped(*failed),
        size::show(*bytes),
        along(report)
    )
}

/// What changed from the start of a report to its end. Reports have no clock: rows stand for it.
fn along(report: &Report) -> String {
    if report.pieces.len() < 2 {
        return String::new();
    }
    let marks = |value: &dyn Fn(&Piece) -> (f64, String)| -> Vec<Mark> {
        let mark = |(at, piece): (usize, &Piece)| {
            let from = at as u64 * report.piece_rows;
            let covers = format!("rows {} – {}", grouped(from + 1), grouped(from + piece.rows));
            let (value, shown) = value(piece);
            Mark { label: grouped(from + 1), covers, value, shown }
        };
        report.pieces.iter().enumerate().map(mark).collect()
    };
    let mut figures = String::new();
    if report.pieces.iter().any(|piece| piece.milliseconds > 0) {
        let speed = |piece: &Piece| {
            let rate = piece.bytes as f64 * 1000.0 / piece.milliseconds.max(1) as f64;
            (rate / 1e6, format!("{}/s", size::show(rate as u64)))
        };
        figures += &line("Throughput", "MB a second of each request, along the rows of the report", &marks(&speed));
    }
    if report.failed > 0 {
        let share =
            |piece: &Piece| (piece.failed as f64 * 100.0 / piece.rows.max(1) as f64, percent(piece.failed, piece.rows));
        figures += &line("Failures", "percent of the rows, along the report", &marks(&share));
    }
    figures
}
