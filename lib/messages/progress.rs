//! Progress of a run: a bar on a terminal, one line every 30 seconds if
//! `--progress` is given, nothing otherwise.
//!
//! The counters are global and lock-free, so that counting costs one atomic
//! addition per sample or read. A thread of its own displays them; it dies with
//! the process.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use rustix::fs::FileType;

use crate::messages::{self, BAR};
use crate::value::size;

static SAMPLES: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
/// Stored bytes of all sources; 0 while unknown.
static TOTAL: AtomicU64 = AtomicU64::new(0);
/// The number of items, in runs that count items instead of samples and bytes;
/// 0 otherwise.
static ITEMS: AtomicU64 = AtomicU64::new(0);
/// The current phase of a run that has several, and when it began.
static PHASE: Mutex<Option<(&str, Instant)>> = Mutex::new(None);

/// When the display began.
static STARTED: OnceLock<Instant> = OnceLock::new();
/// The recent past, to measure rates.
static POINTS: Mutex<VecDeque<WorkPoint>> = Mutex::new(VecDeque::new());
/// Rates are means over at least this time, once it has passed.
const WINDOW: Duration = Duration::from_secs(10);

/// The interval of lines, where there is no bar.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Counts one sample (or item) that was processed.
pub fn add_sample() {
    SAMPLES.fetch_add(1, Ordering::Relaxed);
}

/// Counts one item that failed.
pub fn add_failed() {
    FAILED.fetch_add(1, Ordering::Relaxed);
}

/// Counts bytes that were read without [`Counted`].
pub fn add_bytes(bytes: u64) {
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

/// Sets the number of bytes to read in all, if it is known; the bar then shows
/// a percentage and the remaining time.
pub fn expect(total: Option<u64>) {
    TOTAL.store(total.unwrap_or(0), Ordering::Relaxed);
}

/// Begins a phase of a run that reads its data more than once, such as
/// `merging`. Samples and bytes are counted from zero again; failures are not.
pub fn begin_phase(name: &'static str, total: Option<u64>) {
    [&SAMPLES, &BYTES].iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    expect(total);
    *PHASE.lock() = Some((name, Instant::now()));
}

/// Counts items instead of samples and bytes, `total` of them. For runs whose
/// items are commands (shardrun).
pub fn count_items(total: u64) {
    ITEMS.store(total, Ordering::Relaxed);
}

/// A reader that adds what is read through it to the progress. Sources do this
/// themselves; wrap only files that are opened in another way.
pub struct Counted<R>(pub R);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buf)?;
        BYTES.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Starts to show progress. Without a terminal, or in a pipeline where stdout
/// is a pipe, there is no bar: the stages of a pipeline share one terminal, so
/// only the last may draw. If `asked`, such stages print a line every 30
/// seconds instead.
///
/// Returns at once. If the thread cannot be started, the run continues without
/// progress.
pub fn start(asked: bool) {
    let show: fn(Instant) = if io::stderr().is_terminal() && !stdout_is_pipe() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style("{msg}"));
        _ = BAR.set(bar);
        draw
    } else if asked {
        |started| messages::notice(&line(started))
    } else {
        return;
    };
    let started = *STARTED.get_or_init(Instant::now);
    let every = if BAR.get().is_some() { Duration::from_millis(500) } else { LINE_EVERY };
    _ = std::thread::Builder::new().name("progress".into()).spawn(move || {
        loop {
            std::thread::sleep(every);
            show(started);
        }
    });
}

/// Says, after the bar of a run was removed, what the run read and how long it
/// took; None if there was no bar.
pub fn work_done() -> Option<String> {
    BAR.get()?;
    let elapsed = STARTED.get()?.elapsed();
    let bytes = BYTES.load(Ordering::Relaxed);
    let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
    Some(format!("{} in {}, {}/s", size::show(bytes), clock(elapsed.as_secs()), size::show(rate as u64)))
}

/// Tells the user of a run that a signal ends what becomes of its output.
pub fn report_interruption() {
    stop();
    let samples = SAMPLES.load(Ordering::Relaxed);
    messages::notice(&format!(
        "interrupted after {samples} samples; complete outputs are kept, incomplete ones are removed; \
         run the same command again"
    ));
}

/// Removes the bar. Call it before the last messages of a run.
pub fn stop() {
    if let Some(bar) = BAR.get() {
        bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn stdout_is_pipe() -> bool {
    let stdout = io::stdout();
    rustix::fs::fstat(stdout.as_fd()).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}

/// Updates the bar: by items if they are counted, otherwise by bytes.
fn draw(started: Instant) {
    let Some(bar) = BAR.get() else { return };
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (total, at) = match load(&ITEMS) {
        0 => (load(&TOTAL), load(&BYTES)),
        items => (items, load(&SAMPLES) + load(&FAILED)),
    };
    if total > 0 {
        if bar.length().is_none() {
            bar.set_style(style("{wide_bar} {msg}"));
        }
        bar.set_length(total);
        bar.set_position(at);
    }
    bar.set_message(format!("{}: {}", messages::tool(), line(started)));
}

/// The text beside the bar, or the whole line without one.
fn line(started: Instant) -> String {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let phase = *PHASE.lock();
    let (name, since) = phase.map_or(("", started), |(name, since)| (name, since));
    let colon = if name.is_empty() { "" } else { ": " };
    let counts = match load(&ITEMS) {
        0 => {
            let now = WorkPoint { at: Instant::now(), samples: load(&SAMPLES), bytes: load(&BYTES) };
            describe(now, window_start(now, since), load(&TOTAL))
        }
        items => describe_items(load(&SAMPLES) + load(&FAILED), items, since.elapsed()),
    };
    let mut text = format!("{name}{colon}{counts}");
    if load(&FAILED) > 0 {
        text += &format!(", {} failed", load(&FAILED));
    }
    text
}

/// How much was done at some time.
#[derive(Clone, Copy)]
struct WorkPoint {
    at: Instant,
    samples: u64,
    bytes: u64,
}

/// Records `now` and returns the point that rates are measured from: about
/// [`WINDOW`] ago, or the beginning.
fn window_start(now: WorkPoint, since: Instant) -> WorkPoint {
    let mut points = POINTS.lock();
    if points.back().is_some_and(|last| last.bytes > now.bytes || last.samples > now.samples) {
        points.clear(); // a phase has begun
    }
    points.push_back(now);
    while points.len() > 2 && points.get(1).is_some_and(|second| now.at - second.at >= WINDOW) {
        points.pop_front();
    }
    let is_short = points.front().is_none_or(|first| now.at - first.at < WINDOW);
    let beginning = WorkPoint { at: since, samples: 0, bytes: 0 };
    if is_short { beginning } else { points.front().copied().unwrap_or(beginning) }
}

/// `0:12`, or `9:00:00` with hours.
fn clock(seconds: u64) -> String {
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// `1200 samples, 400/s, 38.1 MB/s, 45 %, 0:12 left`
fn describe(now: WorkPoint, start: WorkPoint, total: u64) -> String {
    let WorkPoint { samples, bytes, .. } = now;
    let seconds = (now.at - start.at).as_secs_f64().max(0.001);
    let rate = bytes.saturating_sub(start.bytes) as f64 / seconds;
    let per_second = samples.saturating_sub(start.samples) as f64 / seconds;
    let mut text = format!("{samples} samples, {per_second:.0}/s, {}/s", size::show(rate as u64));
    if total > 0 && rate > 0.0 {
        let left = (total.saturating_sub(bytes) as f64 / rate) as u64;
        let percent = 100.0 * bytes as f64 / total as f64;
        text += &format!(", {percent:.0} %, {} left", clock(left));
    }
    text
}

/// `12 of 148 items, 0.4/s, 8 %, 5:40 left`
fn describe_items(ended: u64, items: u64, elapsed: Duration) -> String {
    let rate = ended as f64 / elapsed.as_secs_f64().max(0.001);
    let mut text = format!("{ended} of {items} items, {rate:.1}/s, {:.0} %", 100.0 * ended as f64 / items as f64);
    if ended > 0 {
        let left = (items.saturating_sub(ended) as f64 / rate) as u64;
        text += &format!(", {} left", clock(left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_counts_from_zero_under_its_name() {
        add_bytes(1 << 40);
        begin_phase("merging", Some(100));
        let said = line(Instant::now());
        assert!(said.starts_with("merging: 0 samples, 0/s, "), "{said}");
    }

    #[test]
    fn items_have_a_rate_too() {
        assert_eq!(describe_items(5, 20, Duration::from_secs(10)), "5 of 20 items, 0.5/s, 25 %, 0:30 left");
        assert_eq!(describe_items(0, 20, Duration::from_secs(10)), "0 of 20 items, 0.0/s, 0 %");
    }

    #[test]
    fn the_line_has_rates_and_the_remaining_time() {
        let start = WorkPoint { at: Instant::now(), samples: 50, bytes: 2_000_000 };
        let now = WorkPoint { at: start.at + Duration::from_secs(10), samples: 100, bytes: 4_000_000 };
        assert_eq!(describe(now, start, 0), "100 samples, 5/s, 200 kB/s");
        assert_eq!(describe(now, start, 8_000_000), "100 samples, 5/s, 200 kB/s, 50 %, 0:20 left");
        assert_eq!(clock(9 * 3600 + 61), "9:01:01");
    }
}
