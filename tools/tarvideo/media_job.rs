//! The media of one sample, and the runs of ffmpeg that process it: one for the whole file, or one for every few clips.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tarpipe::run::failure::Failure;
use tarpipe::sample::Sample;

use crate::tarvideo::clips::time_spans::TimeSpan;
use crate::tarvideo::clips::timestamp;
use crate::tarvideo::clips::{ClipOptions, ClipResult};
use crate::tarvideo::ffmpeg::collect::{collect, scenes};
use crate::tarvideo::ffmpeg::media_info::MediaInfo;
use crate::tarvideo::ffmpeg::plan::FfmpegPlan;
use crate::tarvideo::ffmpeg::probe;
use crate::tarvideo::ffmpeg::{self, FfmpegLimits};
use crate::tarvideo::options::MediaAction;
use crate::tarvideo::options::MediaOptions;
use crate::tarvideo::sample_processor::OutputSample;

/// Clips encoded in one run; each needs a decoder and an encoder in memory.
const ENCODED_PER_RUN: usize = 4;
/// Clips copied in one run; they need neither.
const COPIED_PER_RUN: usize = 32;
/// A sample with more clips is rejected as malicious.
const MAX_CLIPS: usize = 100_000;

/// The number of clips to make in one run, if there is enough memory.
pub fn max_clips_per_run(options: &MediaOptions, action: MediaAction) -> usize {
    match action {
        _ if options.clips.is_none() => 1,
        MediaAction::Copy => COPIED_PER_RUN,
        _ => ENCODED_PER_RUN,
    }
}

/// The media of one sample, and what all its runs share.
pub struct MediaJob<'a> {
    pub options: &'a MediaOptions,
    pub directory: &'a Path,
    pub file: File,
    pub media: MediaInfo,
    pub action: MediaAction,
    pub extension: &'a str,
    /// The position of the media in the sample.
    pub position: usize,
    pub limits: FfmpegLimits,
    /// The number of clips per run.
    pub clips_per_run: usize,
}

impl MediaJob<'_> {
    fn plan(&self) -> FfmpegPlan<'_> {
        FfmpegPlan {
            options: self.options,
            media: &self.media,
            action: self.action,
            extension: self.extension,
            audio: self.options.audio.is_some() && self.media.audio.is_some(),
            frames: self.options.stills.frames.is_some(),
            thumbnail: self.options.stills.thumbnail,
            cuts: false,
        }
    }

    fn run(
        &self,
        plan: &FfmpegPlan<'_>,
        clips: &[(usize, Option<&TimeSpan>)],
        limits: FfmpegLimits,
    ) -> Result<(), Failure> {
        if plan.is_empty() {
            return Ok(());
        }
        let run = ffmpeg::run(plan.command(clips), &self.file, self.directory, limits, self.options.strict);
        if run.is_err() {
            ffmpeg::remove_outputs(self.directory); // otherwise the next run would collect them
        }
        run.map(drop)
    }

    /// Processes the media as a whole: one sample in, one sample out.
    pub fn process_whole(
        &self,
        sample: Sample,
        json: Option<Map<String, Value>>,
    ) -> Result<Vec<OutputSample>, Failure> {
        let plan = FfmpegPlan { cuts: self.options.cuts.is_some(), ..self.plan() };
        self.run(&plan, &[(0, None)], self.limits)?;
        let (key, source) = (sample.key.clone(), Arc::clone(&sample.source));
        let mut sample = collect(sample, self.position, &plan, self.directory, 0)?;
        if let Some(mut json) = json {
            if plan.cuts {
                json.insert("cuts".into(), self.scenes());
            }
            sample.set("json", Value::from(json).to_string().into_bytes());
        }
        Ok(vec![OutputSample { key, source, result: Ok(sample) }])
    }

    fn scenes(&self) -> Value {
        let rate = self.media.video.as_ref().map_or(0.0, |stream| stream.rate);
        let shortest = if rate > 0.0 { f64::from(self.options.min_scene) / rate } else { 0.0 };
        json!(scenes(self.directory, self.media.duration, shortest))
    }

    /// Cuts the media: one sample in, one sample per clip out.
    pub fn process_clips(
        &self,
        sample: Sample,
        json: Option<Map<String, Value>>,
        clips: &ClipOptions,
    ) -> Result<Vec<OutputSample>, Failure> {
        let mut json = json.unwrap_or_default();
        if self.options.cuts.is_some() {
            let plan = FfmpegPlan {
                action: MediaAction::Drop,
                audio: false,
                frames: false,
                thumbnail: false,
                cuts: true,
                ..self.plan()
            };
            self.run(&plan, &[(0, None)], self.limits)?;
            json.insert("cuts".into(), self.scenes());
        }
        let mut spans = clips.find(&sample, &json, self.media.duration)?;
        if spans.len() > MAX_CLIPS {
            return Err(Failure::new("bad_clip", format!("{} clips, but the limit is {MAX_CLIPS}", spans.len())));
        }
        if clips.keyframes && self.media.video.is_some() {
            let keyframes = probe::keyframes(&self.file, self.directory, self.limits)?;
            let snap = |clip: ClipResult| clip.and_then(|span| clips.snap(span, &keyframes, self.media.duration));
            spans = spans.into_iter().map(snap).collect();
        }
        Ok(self.cut_all(&sample, &json, spans))
    }

    /// Makes the clips, several per run. The limit on output bytes applies to all runs together.
    fn cut_all(&self, sample: &Sample, json: &Map<String, Value>, spans: Vec<ClipResult>) -> Vec<OutputSample> {
        let mut items = Vec::with_capacity(spans.len());
        let mut limits = self.limits;
        let numbered: Vec<(usize, ClipResult)> = spans.into_iter().enumerate().collect();
        for group in numbered.chunks(self.clips_per_run) {
            for (n, result) in self.cut_group(sample, json, group, limits) {
                limits.max_bytes = limits.max_bytes.saturating_sub(result.as_ref().map_or(0, Sample::bytes));
                let key = format!("{}_{n:05}", sample.key);
                items.push(OutputSample { key, source: Arc::clone(&sample.source), result });
            }
        }
        items
    }

    /// Makes a group of clips in one run. If the run fails, each clip gets a run of its own, so that a damaged one does
    /// not take its neighbours with it.
    fn cut_group(
        &self,
        sample: &Sample,
        json: &Map<String, Value>,
        group: &[(usize, ClipResult)],
        limits: FfmpegLimits,
    ) -> Vec<(usize, Result<Sample, Failure>)> {
        let plan = self.plan();
        let good: Vec<(usize, Option<&TimeSpan>)> =
            group.iter().filter_map(|(n, clip)| Some((*n, Some(clip.as_ref().ok()?)))).collect();
        let together = if good.is_empty() { Ok(()) } else { self.run(&plan, &good, limits) };
        let one = |(n, clip): &(usize, ClipResult)| {
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
            self.finish_clip(sample.clone(), json.clone(), &plan, *n, span)
        };
        group.iter().map(|clip| (clip.0, one(clip))).collect()
    }

    fn finish_clip(
        &self,
        sample: Sample,
        mut json: Map<String, Value>,
        plan: &FfmpegPlan<'_>,
        n: usize,
        span: &TimeSpan,
    ) -> Result<Sample, Failure> {
        let clip = json!({"key": sample.key, "index": n, "start": timestamp::round(span.start), "end": timestamp::round(span.end)});
        json.insert("clip".into(), clip);
        let mut sample = collect(sample, self.position, plan, self.directory, n)?;
        if let Some(text) = &span.text {
            sample.set("txt", text.clone().into_bytes());
        }
        sample.set("json", Value::from(json).to_string().into_bytes());
        let key = format!("{}_{n:05}", sample.key);
        sample.rekey(key);
        Ok(sample)
    }
}
