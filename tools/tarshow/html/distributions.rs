//! The section with histograms of image sizes, aspect ratios, file sizes and caption lengths.

use tarpipe::html::{ChartMark, Histogram, bars, bins, grouped};
use tarpipe::value::size;

use super::summary::{ASPECT_ONE, DatasetSummary};

/// The approximate number of bars.
const BARS: u64 = 36;

/// The section as HTML; empty if there is nothing to count.
pub fn section(summary: &DatasetSummary) -> String {
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

fn chart(title: &str, histogram: &Histogram, marks: &[ChartMark], show: fn(u64) -> String, unit: &str) -> String {
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
    let marks: Vec<ChartMark> = bins
        .iter()
        .map(|bin| ChartMark {
            label: format!("{:.2}", bin.from as f64 / 1024.0),
            range: format!("{} – {}", exact(bin.from), exact(bin.to)),
            value: bin.count as f64,
            shown: grouped(bin.count),
        })
        .collect();
    bars("Aspect ratio", &note, &marks)
}
