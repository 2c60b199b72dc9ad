//! One sample on its way: looked at, cut, run through ffmpeg, and put together again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tarpipe::failure::Failure;
use tarpipe::sample::Sample;
use tarpipe::scratch::{Scratch, remove_tree};

use super::choices::Rate;
use super::clips::{Clip, Clips};
use super::collect::{collect, scenes};
use super::ffmpeg::{self, Limits};
use super::graph::Plan;
use super::media::Media;
use super::outputs::{Geometry, Main, Pictures, Sound, Video};
use super::probe;
use super::spans::Span;
use super::time;

/// Clips that are made in one run: each has a decoder and an encoder of its own in memory.
const ENCODED_AT_ONCE: usize = 4;
/// Those that are copied have neither.
const COPIED_AT_ONCE: usize = 32;
/// A sample that names more clips is not meant well.
const MAX_CLIPS: usize = 100_000;

/// All that is asked.
pub struct Wanted {
    pub clips: Option<Clips>,
    pub video: Video,
    pub geometry: Geometry,
    pub fps: Option<Rate>,
    pub pictures: Pictures,
    pub sound: Option<Sound>,
    pub probe: bool,
    /// The change that makes a scene.
    pub cuts: Option<f64>,
    /// Whether damage in the media is a failure.
    pub strict: bool,
    /// Of each ffmpeg.
    pub threads: u16,
    /// Extensions that are media.
    pub fields: Vec<String>,
    /// Whether samples without media pass.
    pub pass_others: bool,
    pub timeout: Duration,
    pub max_bytes: u64,
}

/// A sample that was made, or was not.
pub struct Item {
    pub key: String,
    pub source: Arc<str>,
    pub result: Result<Sample, Failure>,
}

/// Does what is wanted, for any number of threads.
pub struct Work {
    wanted: Wanted,
    scratch: Arc<Scratch>,
    number: AtomicU64,
}

impl Work {
    pub fn new(wanted: Wanted, scratch: Arc<Scratch>) -> Self {
        Work { wanted, scratch, number: AtomicU64::new(0) }
    }

    /// What becomes of a sample: itself, its clips, or a failure.
    pub fn process(&self, sample: Sample) -> Vec<Item> {
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let Some(at) = sample.members.iter().position(|member| self.extension(&member.field).is_some()) else {
            let failure = || Failure::new("no_media", "no field with video or sound");
            let result = if self.wanted.pass_others { Ok(sample) } else { Err(failure()) };
            return vec![Item { key, source, result }];
        };
        let processed = self.directory().and_then(|directory| {
            let processed = self.process_in(&directory, sample, at);
            remove_tree(&directory);
            processed
        });
        processed.unwrap_or_else(|failure| vec![Item { key, source, result: Err(failure) }])
    }

    /// The extension of a field that is media, as the list of fields has it.
    fn extension(&self, field: &str) -> Option<&str> {
        let extension = field.rsplit('.').next().unwrap_or(field);
        self.wanted.fields.iter().find(|known| known.eq_ignore_ascii_case(extension)).map(String::as_str)
    }

    fn directory(&self) -> Result<PathBuf, Failure> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let path = self.scratch.path().join(format!("{number:09}"));
        std::fs::create_dir(&path).map_err(|err| Failure::io("make a directory", &err))?;
        Ok(path)
    }

    fn process_in(&self, directory: &Path, mut sample: Sample, at: usize) -> Result<Vec<Item>, Failure> {
        let limits = Limits {
            timeout: self.wanted.timeout,
            deadline: Instant::now() + self.wanted.timeout,
            max_bytes: self.wanted.max_bytes,
        };
        let file = ffmpeg::in_memory(&sample.members[at].data)?;
        let media = probe::media(&file, directory, limits)?;
        let extension = self.extension(&sample.members[at].field).unwrap_or_default();
        let main = self.main(&media)?;
        if main != Main::Keep {
            sample.members[at].data = Vec::new(); // it is in the file
        }
        let facts = self.facts(&sample, &media)?;
        let task = Task { wanted: &self.wanted, directory, file, media, main, extension, at, limits };
        match &self.wanted.clips {
            None => task.whole(sample, facts),
            Some(clips) => task.clips(sample, facts, clips),
        }
    }

    fn main(&self, media: &Media) -> Result<Main, Failure> {
        let Wanted { video, pictures, .. } = &self.wanted;
        if media.video.is_some() {
            return Ok(match video {
                Video { encode: true, .. } => Main::Encode,
                Video { copy: true, .. } => Main::Copy,
                Video { drop: true, .. } => Main::Drop,
                _ => Main::Keep,
            });
        }
        let needs_video = self.wanted.geometry.is_asked() || self.wanted.fps.is_some() || self.wanted.cuts.is_some();
        if needs_video || pictures.frames.is_some() || pictures.thumbnail {
            return Err(Failure::new("no_video", "there is sound in it, and no video"));
        }
        Ok(match video {
            _ if self.wanted.sound.is_some() || video.drop => Main::Drop,
            Video { encode: true, .. } if self.wanted.clips.is_some() => Main::Sound,
            Video { copy: true, .. } => Main::Copy,
            _ => Main::Keep,
        })
    }

    /// What the sample's json says, and the probe. It is read only where it will be needed.
    fn facts(&self, sample: &Sample, media: &Media) -> Result<Option<Map<String, Value>>, Failure> {
        let Wanted { probe, cuts, clips, .. } = &self.wanted;
        if !(*probe || cuts.is_some() || clips.is_some()) {
            return Ok(None);
        }
        let mut facts: Map<String, Value> = match sample.get("json") {
            Some(member) => serde_json::from_slice(&member.data)
                .map_err(|err| Failure::new("bad_json", format!("the sample's json is no object: {err}")))?,
            None => Map::new(),
        };
        if *probe {
            facts.insert("probe".into(), media.facts.clone());
        }
        Ok(Some(facts))
    }
}

/// One sample's media, and all that its runs have in common.
struct Task<'a> {
    wanted: &'a Wanted,
    directory: &'a Path,
    file: std::fs::File,
    media: Media,
    main: Main,
    extension: &'a str,
    at: usize,
    limits: Limits,
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
    fn whole(&self, sample: Sample, facts: Option<Map<String, Value>>) -> Result<Vec<Item>, Failure> {
        let plan = Plan { cuts: self.wanted.cuts.is_some(), ..self.plan() };
        self.run(&plan, &[(0, None)], self.limits)?;
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let mut sample = collect(sample, self.at, &plan, self.directory, 0)?;
        if let Some(mut facts) = facts {
            if plan.cuts {
                facts.insert("cuts".into(), json!(scenes(self.directory, self.media.duration)));
            }
            sample.set("json", Value::from(facts).to_string().into_bytes());
        }
        Ok(vec![Item { key, source, result: Ok(sample) }])
    }

    /// The sample becomes its clips.
    fn clips(&self, sample: Sample, facts: Option<Map<String, Value>>, clips: &Clips) -> Result<Vec<Item>, Failure> {
        let mut facts = facts.unwrap_or_default();
        if self.wanted.cuts.is_some() {
            let plan =
                Plan { main: Main::Drop, sound: false, frames: false, thumbnail: false, cuts: true, ..self.plan() };
            self.run(&plan, &[(0, None)], self.limits)?;
            facts.insert("cuts".into(), json!(scenes(self.directory, self.media.duration)));
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
        let at_once = if self.main == Main::Copy { COPIED_AT_ONCE } else { ENCODED_AT_ONCE };
        let numbered: Vec<(usize, Clip)> = spans.into_iter().enumerate().collect();
        for group in numbered.chunks(at_once) {
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
            match &together {
                Err(failure) if failure.code == "decode" && good.len() > 1 => {
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
