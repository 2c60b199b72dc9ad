//! One sample on its way: its media found, looked at, and given to ffmpeg.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tarpipe::run::failure::Failure;
use tarpipe::run::memory::{Budget, Held, Turn};
use tarpipe::run::scratch::{Scratch, remove_tree};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;

use super::choices::Rate;
use super::clips::Clips;
use super::ffmpeg::{self, Limits};
use super::media::Media;
use super::memory::{self, PROBE, Share};
use super::outputs::{Geometry, Main, Pictures, Sound, Video};
use super::probe;
use super::task::{self, Task};

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
    /// Frames between two changes of scene, at least.
    pub min_scene: u32,
    /// Whether damage in the media is a failure.
    pub strict: bool,
    /// Of each ffmpeg.
    pub threads: u16,
    /// Extensions that are media.
    pub fields: Vec<String>,
    /// Whether samples without media pass.
    pub pass_others: bool,
    /// Whether failures go on in the stream.
    pub pass_failed: bool,
    pub timeout: Duration,
    pub max_bytes: u64,
}

/// A sample that was made, or was not.
pub struct Item {
    pub key: String,
    pub source: Arc<str>,
    pub result: Result<Sample, Failure>,
}

/// What became of a sample.
pub struct Processed {
    pub items: Vec<Item>,
    /// Its key and json, where failures go on in the stream.
    pub told: Option<Sample>,
    /// The memory of what was made, until it is written.
    _held: Option<Held>,
}

/// Does what is wanted, for any number of threads.
pub struct Work {
    wanted: Wanted,
    budget: Arc<Budget>,
    scratch: Arc<Scratch>,
    number: AtomicU64,
}

impl Processed {
    /// What goes on of an item that failed: the json, with the sample that a clip was to be cut from.
    pub fn failed(&self, item_key: &str, failure: &Failure) -> Option<Sample> {
        let told = self.told.as_ref()?;
        let mut facts = failed::facts(told);
        failed::mark(&mut facts, failure.code, failure.what());
        if item_key != told.key {
            facts.insert("clip".into(), json!({"key": told.key}));
        }
        let mut failed = told.clone();
        failed.set("json", Value::from(facts).to_string().into_bytes());
        failed.rekey(item_key.to_owned());
        Some(failed)
    }
}

impl Work {
    pub fn new(wanted: Wanted, budget: Arc<Budget>, scratch: Arc<Scratch>) -> Self {
        Work { wanted, budget, scratch, number: AtomicU64::new(0) }
    }

    /// Does all that is wanted with a sample, unless a tool before this one has failed it.
    pub fn process(&self, turn: Turn, sample: Sample) -> Processed {
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        if self.wanted.pass_failed && failed::is_failed(&sample) {
            return Processed { items: vec![Item { key, source, result: Ok(sample) }], told: None, _held: None };
        }
        let json = || sample.get("json").cloned().into_iter().collect();
        let told = self.wanted.pass_failed.then(|| Sample { key, mtime: sample.mtime, source, members: json() });
        let mut held = None;
        let items = self.make(sample, turn, &mut held);
        let bytes = items.iter().filter_map(|item| Some(item.result.as_ref().ok()?.bytes())).sum();
        held.iter_mut().for_each(|held| held.shrink_to(bytes));
        Processed { items, told, _held: held }
    }

    /// What becomes of a sample: itself, its clips, or a failure.
    fn make(&self, sample: Sample, turn: Turn, held: &mut Option<Held>) -> Vec<Item> {
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let Some(at) = sample.members.iter().position(|member| self.extension(&member.field).is_some()) else {
            let failure = || Failure::new("no_media", "no field with video or sound");
            let result = if self.wanted.pass_others { Ok(sample) } else { Err(failure()) };
            return vec![Item { key, source, result }];
        };
        let processed = self.directory().and_then(|directory| {
            let processed = self.process_in(&directory, sample, at, turn, held);
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

    fn process_in(
        &self,
        directory: &Path,
        mut sample: Sample,
        at: usize,
        turn: Turn,
        held: &mut Option<Held>,
    ) -> Result<Vec<Item>, Failure> {
        let file = ffmpeg::in_memory(&sample.members[at].data)?;
        let probing = self.budget.take(PROBE);
        let mut limits = Limits {
            timeout: self.wanted.timeout,
            deadline: Instant::now() + self.wanted.timeout,
            max_bytes: self.wanted.max_bytes,
            memory: memory::ceiling(PROBE),
        };
        let media = probe::media(&file, directory, limits)?;
        drop(probing);
        let extension = self.extension(&sample.members[at].field).unwrap_or_default();
        let main = self.main(&media)?;
        if main != Main::Keep {
            sample.members[at].data = Vec::new(); // it is in the file
        }
        let facts = self.facts(&sample, &media)?;
        let share = Share::new(&self.wanted, &media, main, task::at_once(&self.wanted, main), self.budget.limit())?;
        let asked = Instant::now();
        *held = Some(turn.take(share.bytes));
        limits.deadline += asked.elapsed(); // the sample is not to blame for the wait
        limits.memory = share.ceiling();
        let at_once = share.at_once;
        let task = Task { wanted: &self.wanted, directory, file, media, main, extension, at, limits, at_once };
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
