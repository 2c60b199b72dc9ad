//! The page as HTML. Style and script stand in it under a policy that names their hashes: no other
//! code runs, whatever the data holds, and nothing is loaded from anywhere.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tarpipe::report::Tally;
use tarpipe::size;

use super::chart::{Mark, bars, bins, line};
use super::gallery;
use super::histogram::Histogram;
use super::markup::{Text, grouped, percent};
use super::reports::{Piece, Report};
use super::summary::{ASPECT_ONE, FieldCount, Summary};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Bars of a histogram.
const BARS: u64 = 36;

/// All that the page says.
pub struct Page<'a> {
    pub sources: &'a [String],
    pub summary: &'a Summary,
    pub reports: &'a [Report],
    pub left_out: &'a Tally,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = title(self.sources);
        let hash = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n",
            hash(STYLE),
            hash(SCRIPT),
            Text(&title)
        )?;
        f.write_str("<a class=\"skip\" href=\"#gallery\">Skip to the gallery</a>\n<main>\n")?;
        writeln!(f, "<header class=\"top\"><h1>{}</h1>{}</header>", Text(&title), sources_list(self.sources))?;
        for section in [
            self.overview(),
            fields(self.summary),
            charts(self.summary),
            reports(self.reports),
            gallery::section(self.summary),
        ] {
            writeln!(f, "{section}")?;
        }
        let version = env!("CARGO_PKG_VERSION");
        writeln!(
            f,
            "</main>\n<footer class=\"end\">tarshow {version}</footer>\n<script>{SCRIPT}</script>\n</body>\n</html>"
        )
    }
}

impl Page<'_> {
    fn overview(&self) -> String {
        let Summary { samples, bytes, fields, images, unreadable, .. } = self.summary;
        let mut tiles = vec![
            ("Samples", grouped(*samples)),
            ("Data", size::show(*bytes)),
            ("Fields", grouped(fields.len() as u64)),
            ("Images", grouped(*images)),
        ];
        if *unreadable > 0 {
            tiles.push(("Unreadable images", grouped(*unreadable)));
        }
        let (failed, dropped) = (self.left_out.count_failed(), self.left_out.count_dropped());
        if failed > 0 {
            tiles.push(("Failed", grouped(failed)));
        }
        if dropped > 0 {
            tiles.push(("No part of a sample", grouped(dropped)));
        }
        let tile = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", Text(value));
        let left_out = match self.left_out.is_clean() {
            true => String::new(),
            false => format!("<p class=\"note\">{}.</p>", Text(&self.left_out.summary())),
        };
        format!(
            "<section aria-label=\"Overview\"><dl class=\"tiles\">{}</dl>{left_out}</section>",
            tiles.iter().map(tile).collect::<String>()
        )
    }
}

fn title(sources: &[String]) -> String {
    match sources {
        [] => "Samples".into(),
        [one] if one == "-" => "Samples from stdin".into(),
        [one] => one.rsplit('/').next().unwrap_or(one).to_owned(),
        [first, ..] => format!("{} and {} more", first.rsplit('/').next().unwrap_or(first), sources.len() - 1),
    }
}

fn sources_list(sources: &[String]) -> String {
    if sources.len() < 2 {
        return String::new();
    }
    let items: String = sources.iter().map(|name| format!("<li>{}</li>", Text(name))).collect();
    format!("<details><summary>{} sources</summary><ol>{items}</ol></details>", sources.len())
}

fn fields(summary: &Summary) -> String {
    if summary.fields.is_empty() {
        return String::new();
    }
    let rows: String = summary.fields.iter().map(|field| field_row(field, summary.samples)).collect();
    let more = match summary.other_fields {
        0 => String::new(),
        n => format!("<p class=\"note\">{} members have fields beyond these.</p>", grouped(n)),
    };
    format!(
        "<section aria-labelledby=\"fields-title\"><h2 id=\"fields-title\">Fields</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"fields-title\"><table class=\"wide\">\
         <thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Holds</th><th scope=\"col\">Samples</th><th scope=\"col\">Missing</th>\
         <th scope=\"col\">Bytes</th><th scope=\"col\">Median</th><th scope=\"col\">Smallest</th><th scope=\"col\">Largest</th>\
         <th scope=\"col\">First without it</th></tr></thead><tbody>{rows}</tbody></table></div>{more}</section>"
    )
}

fn field_row(field: &FieldCount, samples: u64) -> String {
    let missing = samples - field.samples.min(samples);
    let gap = if missing == 0 {
        "<td class=\"n dim\">0</td>".to_owned()
    } else {
        format!("<td class=\"n warn\">{} <small>{}</small></td>", grouped(missing), percent(missing, samples))
    };
    let first = field.first_missing.as_deref().map(|key| Text(key).to_string()).unwrap_or_default();
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td>{gap}<td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"key\"><bdi>{first}</bdi></td></tr>",
        Text(&field.name),
        Text(&field.holds()),
        grouped(field.samples),
        size::show(field.total_bytes),
        size::show(field.bytes.quantile(0.5)),
        size::show(field.bytes.least()),
        size::show(field.bytes.most()),
    )
}

fn charts(summary: &Summary) -> String {
    let figures = [
        linear("Image width", &summary.widths, " px"),
        linear("Image height", &summary.heights, " px"),
        aspects(&summary.aspects),
        logarithmic("Image bytes", &summary.image_bytes),
        logarithmic("Sample bytes", &summary.sample_bytes),
        linear("Caption length", &summary.caption_chars, " characters"),
    ]
    .concat();
    if figures.is_empty() {
        return String::new();
    }
    format!(
        "<section aria-labelledby=\"charts-title\"><h2 id=\"charts-title\">Distributions</h2><div class=\"charts\">{figures}</div></section>"
    )
}

fn linear(title: &str, histogram: &Histogram, unit: &str) -> String {
    chart(title, histogram, &bins(&histogram.linear(BARS), grouped, unit), grouped, unit)
}

fn logarithmic(title: &str, histogram: &Histogram) -> String {
    chart(title, histogram, &bins(&histogram.logarithmic(4), size::show, ""), size::show, "")
}

fn chart(title: &str, histogram: &Histogram, marks: &[Mark], show: fn(u64) -> String, unit: &str) -> String {
    if histogram.total() == 0 {
        return String::new();
    }
    let note = format!(
        "median {} · mean {} · {} – {}{unit}",
        show(histogram.quantile(0.5)),
        show(histogram.mean().round() as u64),
        show(histogram.least()),
        show(histogram.most())
    );
    bars(title, &note, marks)
}

fn aspects(aspects: &Histogram) -> String {
    if aspects.total() == 0 {
        return String::new();
    }
    let exact = |n: u64| format!("{:.2}", n as f64 / ASPECT_ONE);
    let note = format!(
        "width over height · median {} · {} – {}",
        exact(aspects.quantile(0.5)),
        exact(aspects.least()),
        exact(aspects.most())
    );
    let bins = aspects.logarithmic(8);
    let marks: Vec<Mark> = bins
        .iter()
        .map(|bin| Mark {
            label: format!("{:.2}", bin.from as f64 / 1024.0),
            covers: format!("{} – {}", exact(bin.from), exact(bin.to)),
            value: bin.count as f64,
            shown: grouped(bin.count),
        })
        .collect();
    bars("Aspect ratio", &note, &marks)
}

fn reports(reports: &[Report]) -> String {
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
