//! The media of one sample, and the runs of ffmpeg that make something of it.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use super::clips::{Clip, Clips};
use super::collect::{collect, scenes};
use super::ffmpeg::{self, Limits};
use super::graph::Plan;
use super::job::{Item, Wanted};
use super::media::Media;
use super::outputs::Main;
use super::probe;
use super::spans::Span;
use super::time;

/// Clips that are made in one run: each has a decoder and an encoder of its own in memory.
const ENCODED_AT_ONCE: usize = 4;
/// Those that are copied have neither.
const COPIED_AT_ONCE: usize = 32;
/// A sample that names more clips is not meant well.
const MAX_CLIPS: usize = 100_000;

/// Clips that are made in one run if the memory allows.
pub fn at_once(wanted: &Wanted, main: Main) -> usize {
    match main {
        _ if wanted.clips.is_none() => 1,
        Main::Copy => COPIED_AT_ONCE,
        _ => ENCODED_AT_ONCE,
    }
}

/// One sample's media, and all that its runs have in common.
pub struct Task<'a> {
    pub wanted: &'a Wanted,
    pub directory: &'a Path,
    pub file: File,
    pub media: Media,
    pub main: Main,
    pub extension: &'a str,
    /// Which member of the sample it is.
    pub at: usize,
    pub limits: Limits,
    /// Clips that are made in one run.
    pub at_once: usize,
}

impl Task<'_> {
    fn plan(&self) -> Plan<'_> {
        Plan {
            wanted: self.wanted,
            media: &self.media,
            main: self.main,
            extension: self.extension,
            sound: self.wanted.sound.is_some() && self.media.sound.is_some(),
            frames: self.wanted.pictures.frames.is_some(),
            thumbnail: self.wanted.pictures.thumbnail,
            cuts: false,
        }
    }

    fn run(&self, plan: &Plan<'_>, clips: &[(usize, Option<&Span>)], limits: Limits) -> Result<(), Failure> {
        if plan.is_empty() {
            return Ok(());
        }
        let run = ffmpeg::run(plan.command(clips), &self.file, self.directory, limits, self.wanted.strict);
        if run.is_err() {
            ffmpeg::empty(self.directory); // or the next run would find it
        }
        run.map(drop)
    }

    /// The sample stays one.
    pub fn whole(&self, sample: Sample, facts: Option<Map<String, Value>>) -> Result<Vec<Item>, Failure> {
        let plan = Plan { cuts: self.wanted.cuts.is_some(), ..self.plan() };
        self.run(&plan, &[(0, None)], self.limits)?;
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let mut sample = collect(sample, self.at, &plan, self.directory, 0)?;
        if let Some(mut facts) = facts {
            if plan.cuts {
                facts.insert("cuts".into(), self.scenes());
            }
            sample.set("json", Value::from(facts).to_string().into_bytes());
        }
        Ok(vec![Item { key, source, result: Ok(sample) }])
    }

    fn scenes(&self) -> Value {
        let rate = self.media.video.as_ref().map_or(0.0, |picture| picture.rate);
        let shortest = if rate > 0.0 { f64::from(self.wanted.min_scene) / rate } else { 0.0 };
        json!(scenes(self.directory, self.media.duration, shortest))
    }

    /// The sample becomes its clips.
    pub fn clips(
        &self,
        sample: Sample,
        facts: Option<Map<String, Value>>,
        clips: &Clips,
    ) -> Result<Vec<Item>, Failure> {
        let mut facts = facts.unwrap_or_default();
        if self.wanted.cuts.is_some() {
            let plan =
                Plan { main: Main::Drop, sound: false, frames: false, thumbnail: false, cuts: true, ..self.plan() };
            self.run(&plan, &[(0, None)], self.limits)?;
            facts.insert("cuts".into(), self.scenes());
        }
        let mut spans = clips.of(&sample, &facts, self.media.duration)?;
        if spans.len() > MAX_CLIPS {
            return Err(Failure::new("bad_clip", format!("{} clips, more than {MAX_CLIPS}", spans.len())));
        }
        if clips.keyframes && self.media.video.is_some() {
            let keyframes = probe::keyframes(&self.file, self.directory, self.limits)?;
            let snap = |clip: Clip| clip.and_then(|span| clips.snap(span, &keyframes, self.media.duration));
            spans = spans.into_iter().map(snap).collect();
        }
        Ok(self.cut(&sample, &facts, spans))
    }

    /// Makes the clips, several in a run, in the room that is left for each run.
    fn cut(&self, sample: &Sample, facts: &Map<String, Value>, spans: Vec<Clip>) -> Vec<Item> {
        let mut items = Vec::with_capacity(spans.len());
        let mut limits = self.limits;
        let numbered: Vec<(usize, Clip)> = spans.into_iter().enumerate().collect();
        for group in numbered.chunks(self.at_once) {
            for (n, result) in self.make(sample, facts, group, limits) {
                limits.max_bytes = limits.max_bytes.saturating_sub(result.as_ref().map_or(0, Sample::bytes));
                let key = format!("{}_{n:05}", sample.key);
                items.push(Item { key, source: Arc::clone(&sample.source), result });
            }
        }
        items
    }

    /// One run for a group. When it fails, each clip gets a run of its own: one that is damaged must not
    /// cost its neighbours.
    fn make(
        &self,
        sample: &Sample,
        facts: &Map<String, Value>,
        group: &[(usize, Clip)],
        limits: Limits,
    ) -> Vec<(usize, Result<Sample, Failure>)> {
        let plan = self.plan();
        let good: Vec<(usize, Option<&Span>)> =
            group.iter().filter_map(|(n, clip)| Some((*n, Some(clip.as_ref().ok()?)))).collect();
        let together = if good.is_empty() { Ok(()) } else { self.run(&plan, &good, limits) };
        let one = |(n, clip): &(usize, Clip)| {
            let span = clip.as_ref().map_err(Clone::clone)?;
            if limits.max_bytes == 0 {
                return Err(ffmpeg::too_large(self.limits.max_bytes));
            }
            match &together {
                Err(Failure { code: "decode" | "crashed" | "memory", .. }) if good.len() > 1 => {
                    self.run(&plan, &[(*n, Some(span))], limits)?;
                }
                other => other.clone()?,
            }
            self.clip(sample.clone(), facts.clone(), &plan, *n, span)
        };
        group.iter().map(|clip| (clip.0, one(clip))).collect()
    }

    fn clip(
        &self,
        sample: Sample,
        mut facts: Map<String, Value>,
        plan: &Plan<'_>,
        n: usize,
        span: &Span,
    ) -> Result<Sample, Failure> {
        let place =
            json!({"key": sample.key, "index": n, "start": time::round(span.start), "end": time::round(span.end)});
        facts.insert("clip".into(), place);
        let mut sample = collect(sample, self.at, plan, self.directory, n)?;
        if let Some(text) = &span.text {
            sample.set("txt", text.clone().into_bytes());
        }
        sample.set("json", Value::from(facts).to_string().into_bytes());
        let key = format!("{}_{n:05}", sample.key);
        sample.rekey(key);
        Ok(sample)
    }
}
