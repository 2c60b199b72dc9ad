//! Processes one sample: finds its media, probes it, reserves memory, and runs ffmpeg on it in a directory of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tarpipe::run::failure::Failure;
use tarpipe::run::memory::{MemoryBudget, MemoryShare, MemoryTurn};
use tarpipe::run::scratch::{Scratch, remove_tree};
use tarpipe::sample::Sample;
use tarpipe::sample::failed;

use crate::tarvideo::ffmpeg::media_info::MediaInfo;
use crate::tarvideo::ffmpeg::probe;
use crate::tarvideo::ffmpeg::{self, FfmpegLimits};
use crate::tarvideo::media_job::{self, MediaJob};
use crate::tarvideo::memory_estimate::{self, FfmpegMemory, PROBE};
use crate::tarvideo::options::{MediaAction, MediaOptions, VideoOptions};

/// An output sample, or the reason why it failed.
pub struct OutputSample {
    pub key: String,
    pub source: Arc<str>,
    pub result: Result<Sample, Failure>,
}

/// The results of one input sample.
pub struct SampleResults {
    pub items: Vec<OutputSample>,
    /// The key and json of the input, if failed samples pass.
    pub original: Option<Sample>,
    /// The memory of the results, released once they are written.
    _held: Option<MemoryShare>,
}

/// Processes samples; shared by all threads.
pub struct SampleProcessor {
    options: MediaOptions,
    budget: Arc<MemoryBudget>,
    scratch: Arc<Scratch>,
    directories: AtomicU64,
}

impl SampleResults {
    /// The sample that is passed on instead of a failed one: its json, which for a clip also names the original sample.
    pub fn failed_sample(&self, item_key: &str, failure: &Failure) -> Option<Sample> {
        let original = self.original.as_ref()?;
        let mut json = failed::facts(original);
        failed::mark(&mut json, failure.code, failure.what());
        if item_key != original.key {
            json.insert("clip".into(), json!({"key": original.key}));
        }
        let mut failed = original.clone();
        failed.set("json", Value::from(json).to_string().into_bytes());
        failed.rekey(item_key.to_owned());
        Some(failed)
    }
}

impl SampleProcessor {
    pub fn new(options: MediaOptions, budget: Arc<MemoryBudget>, scratch: Arc<Scratch>) -> Self {
        SampleProcessor { options, budget, scratch, directories: AtomicU64::new(0) }
    }

    /// Processes a sample, unless an earlier tool has marked it as failed.
    pub fn process(&self, turn: MemoryTurn, sample: Sample) -> SampleResults {
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        if self.options.pass_failed && failed::is_failed(&sample) {
            return SampleResults {
                items: vec![OutputSample { key, source, result: Ok(sample) }],
                original: None,
                _held: None,
            };
        }
        let members = || sample.get("json").cloned().into_iter().collect();
        let original =
            self.options.pass_failed.then(|| Sample { key, mtime: sample.mtime, source, members: members() });
        let mut held = None;
        let items = self.output_samples(sample, turn, &mut held);
        let bytes = items.iter().filter_map(|item| Some(item.result.as_ref().ok()?.bytes())).sum();
        held.iter_mut().for_each(|held| held.shrink_to(bytes));
        SampleResults { items, original, _held: held }
    }

    /// Returns the processed sample, its clips, or a failure.
    fn output_samples(&self, sample: Sample, turn: MemoryTurn, held: &mut Option<MemoryShare>) -> Vec<OutputSample> {
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let Some(position) = sample.members.iter().position(|member| self.extension(&member.field).is_some()) else {
            let failure = || Failure::new("no_media", "the sample has no video or audio field");
            let result = if self.options.pass_others { Ok(sample) } else { Err(failure()) };
            return vec![OutputSample { key, source, result }];
        };
        let processed = self.create_directory().and_then(|directory| {
            let processed = self.process_in(&directory, sample, position, turn, held);
            remove_tree(&directory);
            processed
        });
        processed.unwrap_or_else(|failure| vec![OutputSample { key, source, result: Err(failure) }])
    }

    /// The extension of a media field, as spelt in `--fields`.
    fn extension(&self, field: &str) -> Option<&str> {
        let extension = field.rsplit('.').next().unwrap_or(field);
        self.options.fields.iter().find(|known| known.eq_ignore_ascii_case(extension)).map(String::as_str)
    }

    fn create_directory(&self) -> Result<PathBuf, Failure> {
        let number = self.directories.fetch_add(1, Ordering::Relaxed);
        let path = self.scratch.path().join(format!("{number:09}"));
        std::fs::create_dir(&path).map_err(|err| Failure::io("create a directory", &err))?;
        Ok(path)
    }

    fn process_in(
        &self,
        directory: &Path,
        mut sample: Sample,
        position: usize,
        turn: MemoryTurn,
        held: &mut Option<MemoryShare>,
    ) -> Result<Vec<OutputSample>, Failure> {
        let file = ffmpeg::in_memory(&sample.members[position].data)?;
        let (media, mut limits) = self.probe(&file, directory)?;
        let extension = self.extension(&sample.members[position].field).unwrap_or_default();
        let action = self.action(&media)?;
        if action != MediaAction::Keep {
            sample.members[position].data = Vec::new(); // the memory file has a copy
        }
        let json = self.sample_json(&sample, &media)?;
        let max_clips = media_job::max_clips_per_run(&self.options, action);
        let memory = FfmpegMemory::new(&self.options, &media, action, max_clips, self.budget.limit())?;
        let waiting_since = Instant::now();
        *held = Some(turn.take(memory.bytes));
        limits.deadline += waiting_since.elapsed(); // waiting for memory does not count against the sample
        limits.memory = memory.ceiling();
        let (options, clips_per_run) = (&self.options, memory.clips_per_run);
        let job = MediaJob { options, directory, file, media, action, extension, position, limits, clips_per_run };
        match &self.options.clips {
            None => job.process_whole(sample, json),
            Some(clips) => job.process_clips(sample, json, clips),
        }
    }

    /// Probes the media; also returns the limits for its runs, whose time starts now.
    fn probe(&self, file: &File, directory: &Path) -> Result<(MediaInfo, FfmpegLimits), Failure> {
        let _held = self.budget.take(PROBE);
        let limits = FfmpegLimits {
            timeout: self.options.timeout,
            deadline: Instant::now() + self.options.timeout,
            max_bytes: self.options.max_bytes,
            memory: memory_estimate::ceiling(PROBE),
        };
        Ok((probe::media(file, directory, limits)?, limits))
    }

    /// What to do with the media field; fails if the options need video and there is none.
    fn action(&self, media: &MediaInfo) -> Result<MediaAction, Failure> {
        let MediaOptions { video, stills, .. } = &self.options;
        if media.video.is_some() {
            let is_sound_all =
                video.drop && self.options.audio.is_some() && stills.frames.is_none() && !stills.thumbnail;
            if is_sound_all && media.audio.is_none() {
                return Err(Failure::new("no_audio", "the media has video but no audio"));
            }
            return Ok(match video {
                VideoOptions { encode: true, .. } => MediaAction::Encode,
                VideoOptions { copy: true, .. } => MediaAction::Copy,
                VideoOptions { drop: true, .. } => MediaAction::Drop,
                _ => MediaAction::Keep,
            });
        }
        let needs_video = self.options.geometry.is_set() || self.options.fps.is_some() || self.options.cuts.is_some();
        if needs_video || stills.frames.is_some() || stills.thumbnail {
            return Err(Failure::new("no_video", "the media has audio but no video"));
        }
        Ok(match video {
            _ if self.options.audio.is_some() || video.drop => MediaAction::Drop,
            VideoOptions { encode: true, .. } if self.options.clips.is_some() => MediaAction::EncodeAudio,
            VideoOptions { copy: true, .. } => MediaAction::Copy,
            _ => MediaAction::Keep,
        })
    }

    /// The sample's json, with the probe. It is parsed only if it is needed.
    fn sample_json(&self, sample: &Sample, media: &MediaInfo) -> Result<Option<Map<String, Value>>, Failure> {
        let MediaOptions { probe, cuts, clips, .. } = &self.options;
        if !(*probe || cuts.is_some() || clips.is_some()) {
            return Ok(None);
        }
        let mut json: Map<String, Value> = match sample.get("json") {
            Some(member) => serde_json::from_slice(&member.data)
                .map_err(|err| Failure::new("bad_json", format!("the sample's json is not an object: {err}")))?,
            None => Map::new(),
        };
        if *probe {
            json.insert("probe".into(), media.probe_output.clone());
        }
        Ok(Some(json))
    }
}
