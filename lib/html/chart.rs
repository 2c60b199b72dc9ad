//! Charts as plain SVG: bars and lines with a tooltip per mark, and the same numbers as a table.

use std::fmt::Write;

use super::histogram::{Bin, nice};
use super::{Escaped, grouped};

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 34.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 22.0;
/// The width of a label on the horizontal axis, in pixels.
const LABEL: f64 = 44.0;

/// A bar or a point.
pub struct ChartMark {
    /// The label of its start on the axis.
    pub label: String,
    /// The range it stands for, in words.
    pub range: String,
    /// Its height.
    pub value: f64,
    /// The value with its unit.
    pub shown: String,
}

/// Converts histogram bins to bars. `show` formats a number for the axis; `unit` is appended in tooltips and the table.
pub fn bins(bins: &[Bin], show: impl Fn(u64) -> String, unit: &str) -> Vec<ChartMark> {
    let mark = |bin: &Bin| {
        let last = (bin.to - 1).max(bin.from);
        let range = match bin {
            Bin { open: true, from, .. } => format!("{}{unit} and more", show(*from)),
            Bin { from, .. } if last == *from => format!("{}{unit}", show(*from)),
            Bin { from, .. } => format!("{} – {}{unit}", show(*from), show(last)),
        };
        ChartMark { label: show(bin.from), range, value: bin.count as f64, shown: grouped(bin.count) }
    };
    bins.iter().map(mark).collect()
}

/// A bar chart.
pub fn bars(title: &str, note: &str, marks: &[ChartMark]) -> String {
    figure(title, note, marks, |marks, top| {
        let step = (WIDTH - LEFT - RIGHT) / marks.len() as f64;
        let gap = if step > 6.0 { 1.5 } else { 0.5 };
        let mut svg = String::new();
        for (at, mark) in marks.iter().enumerate().filter(|(_, mark)| mark.value > 0.0) {
            let height = (mark.value / top * (HEIGHT - TOP - BOTTOM)).max(1.0);
            let (x, y) = (LEFT + at as f64 * step + gap / 2.0, HEIGHT - BOTTOM - height);
            _ = write!(
                svg,
                r#"<rect class="bar" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}"><title>{}: {}</title></rect>"#,
                step - gap,
                Escaped(&mark.range),
                Escaped(&mark.shown)
            );
        }
        svg
    })
}

/// A line chart.
pub fn line(title: &str, note: &str, marks: &[ChartMark]) -> String {
    figure(title, note, marks, |marks, top| {
        let step = (WIDTH - LEFT - RIGHT) / marks.len() as f64;
        let place = |at: usize, value: f64| {
            let y = HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
            (LEFT + (at as f64 + 0.5) * step, y)
        };
        let points: Vec<(f64, f64)> = marks.iter().enumerate().map(|(at, mark)| place(at, mark.value)).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let mut svg = format!(r#"<polyline class="line" points="{}"/>"#, path.join(" "));
        for ((x, y), mark) in points.iter().zip(marks) {
            let (range, shown) = (Escaped(&mark.range), Escaped(&mark.shown));
            _ = write!(
                svg,
                r#"<circle class="dot" cx="{x:.1}" cy="{y:.1}" r="3.5"><title>{range}: {shown}</title></circle>"#
            );
        }
        svg
    })
}

fn figure(title: &str, note: &str, marks: &[ChartMark], draw: impl Fn(&[ChartMark], f64) -> String) -> String {
    let most = marks.iter().map(|mark| mark.value).fold(0.0, f64::max);
    let (top, ticks) = scale(most);
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}: {}">"#,
        Escaped(title),
        Escaped(note)
    );
    for tick in ticks {
        let y = HEIGHT - BOTTOM - tick / top * (HEIGHT - TOP - BOTTOM);
        let (end, text) = (WIDTH - RIGHT, y + 3.5);
        _ = write!(svg, r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{end}" y2="{y:.1}"/>"#);
        _ = write!(
            svg,
            r#"<text class="tick" x="{}" y="{text:.1}" text-anchor="end">{}</text>"#,
            LEFT - 6.0,
            short(tick)
        );
    }
    svg += &draw(marks, top);
    svg += &lower_axis(marks);
    svg += "</svg>";
    format!(
        "<figure class=\"chart\"><figcaption><h3>{}</h3><p>{}</p></figcaption>{svg}{}</figure>",
        Escaped(title),
        Escaped(note),
        numbers(title, marks)
    )
}

fn lower_axis(marks: &[ChartMark]) -> String {
    let step = (WIDTH - LEFT - RIGHT) / marks.len().max(1) as f64;
    let every = (LABEL / step).ceil().max(1.0) as usize;
    let mut svg = String::new();
    for (at, mark) in marks.iter().enumerate().step_by(every) {
        let x = LEFT + at as f64 * step;
        if x + LABEL * 0.6 <= WIDTH {
            let y = HEIGHT - BOTTOM + 15.0;
            _ = write!(svg, r#"<text class="tick" x="{x:.1}" y="{y}">{}</text>"#, Escaped(&mark.label));
        }
    }
    svg
}

/// The numbers as a table, also for screen readers.
fn numbers(title: &str, marks: &[ChartMark]) -> String {
    let mut table = format!("<details><summary>Numbers</summary><table aria-label=\"{}\"><tbody>", Escaped(title));
    for mark in marks.iter().filter(|mark| mark.value > 0.0) {
        _ = write!(table, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", Escaped(&mark.range), Escaped(&mark.shown));
    }
    table + "</tbody></table></details>"
}

/// The height of the axis, and its ticks: at most five round numbers.
fn scale(most: f64) -> (f64, Vec<f64>) {
    if most <= 0.0 {
        return (1.0, vec![0.0]);
    }
    // Scale small numbers up, so that round ones become integers.
    let mut unit = 1.0;
    while most / unit < 10.0 && unit > 1e-9 {
        unit /= 10.0;
    }
    let step = nice((most / unit / 4.0).ceil() as u64) as f64 * unit;
    let steps = (most / step).ceil().max(1.0) as u32;
    (f64::from(steps) * step, (0..=steps).map(|i| f64::from(i) * step).collect())
}

/// Formats `25000` as `25k`.
fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(scale(93.0), (100.0, vec![0.0, 50.0, 100.0]));
        assert_eq!(scale(7.0), (8.0, vec![0.0, 2.0, 4.0, 6.0, 8.0]));
        assert_eq!(scale(0.0).0, 1.0);
        assert!((scale(0.37).0 - 0.4).abs() < 1e-9);
        assert_eq!([0.0, 1500.0, 25_000.0, 2.5e6].map(short), ["0", "1500", "25k", "2.5M"]);
    }
}
