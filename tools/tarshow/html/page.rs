//! Assembles the HTML page.

use std::fmt;

use tarpipe::html::{self, Escaped, grouped, percent};
use tarpipe::tally::Tally;
use tarpipe::value::size;

use super::run_report::RunReport;
use super::summary::{DatasetSummary, FieldCount};
use super::{distributions, gallery, report_section};

const SCRIPT: &str = include_str!("page.js");

/// Everything the page shows.
pub struct Page<'a> {
    pub sources: &'a [String],
    pub summary: &'a DatasetSummary,
    pub reports: &'a [RunReport],
    pub left_out: &'a Tally,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = title(self.sources);
        let sections = [
            self.overview(),
            fields(self.summary),
            distributions::section(self.summary),
            report_section::section(self.reports),
            gallery::section(self.summary),
        ];
        let body = format!(
            "<a class=\"skip\" href=\"#gallery\">Skip to the gallery</a>\n<main>\n\
             <header class=\"top\"><h1>{}</h1>{}</header>\n{}\n</main>\n<footer class=\"end\">tarshow {}</footer>\n",
            Escaped(&title),
            sources_list(self.sources),
            sections.join("\n"),
            env!("CARGO_PKG_VERSION")
        );
        f.write_str(&html::page(&title, &body, SCRIPT))
    }
}

impl Page<'_> {
    fn overview(&self) -> String {
        let DatasetSummary { samples, bytes, fields, images, unreadable, .. } = self.summary;
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
            tiles.push(("Members outside samples", grouped(dropped)));
        }
        let tile = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>", Escaped(value));
        let left_out = match self.left_out.is_clean() {
            true => String::new(),
            false => format!("<p class=\"note\">{}.</p>", Escaped(&self.left_out.summary())),
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
    let items: String = sources.iter().map(|name| format!("<li>{}</li>", Escaped(name))).collect();
    format!("<details><summary>{} sources</summary><ol>{items}</ol></details>", sources.len())
}

fn fields(summary: &DatasetSummary) -> String {
    if summary.fields.is_empty() {
        return String::new();
    }
    let rows: String = summary.fields.iter().map(|field| field_row(field, summary.samples)).collect();
    let more = match summary.other_fields {
        0 => String::new(),
        n => format!("<p class=\"note\">{} members have further fields, which are not listed.</p>", grouped(n)),
    };
    format!(
        "<section aria-labelledby=\"fields-title\"><h2 id=\"fields-title\">Fields</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"fields-title\"><table class=\"wide\">\
         <thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Content</th><th scope=\"col\">Samples</th><th scope=\"col\">Missing</th>\
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
    let first = field.first_missing.as_deref().map(|key| Escaped(key).to_string()).unwrap_or_default();
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td>{gap}<td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"key\"><bdi>{first}</bdi></td></tr>",
        Escaped(&field.name),
        Escaped(&field.holds()),
        grouped(field.samples),
        size::show(field.total_bytes),
        size::show(field.bytes.quantile(0.5)),
        size::show(field.bytes.least()),
        size::show(field.bytes.most()),
    )
}
