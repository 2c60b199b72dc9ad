//! Plans one run of ffmpeg: inputs, a single filter graph for all outputs, and the outputs.

use std::process::Command;

use crate::tarvideo::clips::time_spans::TimeSpan;
use crate::tarvideo::clips::timestamp;
use crate::tarvideo::ffmpeg::command_line::{CommandLine, FilterChain};
use crate::tarvideo::ffmpeg::media_info::{MediaInfo, VideoStream};
use crate::tarvideo::ffmpeg::output_files::{CUTS_FILE, OutputNames};
use crate::tarvideo::ffmpeg::program;
use crate::tarvideo::ffmpeg::{self, MEDIA};
use crate::tarvideo::flag_values::{AudioFormat, FrameSelection, StillFormat, VideoCodec};
use crate::tarvideo::options::MediaOptions;
use crate::tarvideo::options::{MediaAction, short_side};

/// Keyframe times are rounded: seek slightly after a keyframe, and stop slightly before one.
const MARGIN: f64 = 0.001;

/// What a run makes from each of its clips.
pub struct FfmpegPlan<'a> {
    pub options: &'a MediaOptions,
    pub media: &'a MediaInfo,
    pub action: MediaAction,
    /// The extension of the media field.
    pub extension: &'a str,
    /// Whether the audio becomes a field of its own.
    pub audio: bool,
    pub frames: bool,
    pub thumbnail: bool,
    pub cuts: bool,
}

impl FfmpegPlan<'_> {
    /// Whether there is nothing for ffmpeg to do.
    pub fn is_empty(&self) -> bool {
        let keeps = matches!(self.action, MediaAction::Keep | MediaAction::Drop);
        keeps && !(self.audio || self.frames || self.thumbnail || self.cuts)
    }

    /// The command for these clips; a span of `None` is the whole media.
    pub fn command(&self, clips: &[(usize, Option<&TimeSpan>)]) -> Command {
        let mut line = CommandLine::default();
        for (input, (n, span)) in clips.iter().enumerate() {
            self.input(&mut line, *span);
            if let Some(stream) = &self.media.video {
                self.video_outputs(&mut line, input, &OutputNames::new(*n), stream);
            }
            self.audio_outputs(&mut line, input, &OutputNames::new(*n), span.is_some());
        }
        let mut command = program::command("ffmpeg");
        command.args(["-hide_banner", "-v", "error", "-nostats", "-nostdin", "-y", "-abort_on", "empty_output"]);
        command.args(["-filter_threads", "1", "-filter_complex_threads", "1"]);
        command.args(["-max_error_rate", if self.options.strict { "0.02" } else { "1" }]);
        command.args(&line.inputs);
        if !line.graph.is_empty() {
            command.args(["-filter_complex", &line.graph.join(";")]);
        }
        command.args(&line.outputs);
        command
    }

    fn input(&self, line: &mut CommandLine, span: Option<&TimeSpan>) {
        let threads = self.options.threads.to_string();
        line.input(&["-threads", &threads]);
        line.input(&ffmpeg::input_flags());
        if self.action != MediaAction::Encode && self.only_keyframes() {
            line.input(&["-skip_frame", "nokey"]);
        }
        if self.action == MediaAction::Copy {
            line.input(&["-noaccurate_seek"]); // images and audio start where the copied video does
        }
        if let Some(span) = span {
            let at_keyframes = self.options.clips.as_ref().is_some_and(|clips| clips.keyframes);
            let margin = if at_keyframes && self.action == MediaAction::Copy { MARGIN } else { 0.0 };
            let length = span.length() - 2.0 * margin;
            line.input(&["-ss", &timestamp::show(span.start + margin), "-t", &timestamp::show(length)]);
        }
        line.input(&["-i", MEDIA]);
    }

    /// Whether only keyframes are needed, so that nothing else has to be decoded.
    fn only_keyframes(&self) -> bool {
        let frames = self.options.stills.frames.as_ref().filter(|_| self.frames);
        frames == Some(&FrameSelection::Keyframe) && !self.thumbnail && !self.cuts
    }

    /// Adds everything that is made from the video. Some outputs start from the source, the others from the source
    /// after frame rate and size have changed.
    fn video_outputs(&self, line: &mut CommandLine, input: usize, names: &OutputNames, stream: &VideoStream) {
        let geometry = self.options.geometry.filters(stream.is_square);
        let (mut from_source, mut from_resized) = (Vec::new(), Vec::new());
        if self.action == MediaAction::Encode {
            let even = "crop=w='trunc(iw/2)*2':h='trunc(ih/2)*2',format=yuv420p";
            from_resized.push(FilterChain::new(vec![even.into()], format!("v{input}")));
            self.encode_output(line, input, names, stream);
        }
        match self.options.stills.frames.as_ref().filter(|_| self.frames) {
            Some(FrameSelection::Keyframe) => {
                from_source.push(self.frame_output(line, input, names, "%06d", with("select=key", &geometry)))
            }
            Some(FrameSelection::All) => from_resized.push(self.frame_output(line, input, names, "%06d", Vec::new())),
            Some(FrameSelection::PerSecond(rate)) => {
                from_resized.push(self.frame_output(line, input, names, "%06d", vec![format!("fps={}", rate.0)]));
            }
            Some(FrameSelection::First) => {
                from_resized.push(self.frame_output(line, input, names, "000001", vec!["select='eq(n,0)'".into()]));
            }
            None => {}
        }
        if self.thumbnail {
            from_resized.push(self.thumbnail_output(line, input, names));
        }
        if let Some(threshold) = self.options.cuts.filter(|_| self.cuts) {
            from_source.push(scene_output(line, input, threshold));
        }
        let fps = self.options.fps.as_ref().map(|rate| format!("fps={}", rate.0));
        let resized = format!("resized{input}");
        if !from_resized.is_empty() {
            from_source.push(FilterChain::new(fps.into_iter().chain(geometry).collect(), resized.clone()));
        }
        line.split(&format!("{input}:{}", stream.index), from_source);
        line.split(&resized, from_resized);
    }

    fn frame_output(
        &self,
        line: &mut CommandLine,
        input: usize,
        names: &OutputNames,
        number: &str,
        filters: Vec<String>,
    ) -> FilterChain {
        let format = self.options.stills.format;
        let label = format!("f{input}");
        line.image(&label, &names.frame(number, format.extension()), format, !number.starts_with('%'));
        FilterChain::new(for_image(filters, format), label)
    }

    fn thumbnail_output(&self, line: &mut CommandLine, input: usize, names: &OutputNames) -> FilterChain {
        let format = self.options.stills.format;
        let label = format!("t{input}");
        line.image(&label, &names.thumbnail(format.extension()), format, true);
        let small = short_side("min(iw,256)", "min(ih,256)");
        FilterChain::new(for_image(vec![format!("fps=1:round=up,{small},thumbnail=100")], format), label)
    }

    fn encode_output(&self, line: &mut CommandLine, input: usize, names: &OutputNames, stream: &VideoStream) {
        let video = &self.options.video;
        let threads = self.options.threads.to_string();
        line.output(&["-map", &format!("[v{input}]"), "-c:v", video.codec.encoder(), "-fps_mode", "vfr"]);
        line.output(&["-threads:v", &threads]);
        if self.options.fps.is_none() && stream.is_uneven {
            line.output(&["-enc_time_base:v", "1/90000"]); // else times are rounded to a frame rate
        }
        if let Some(crf) = video.crf {
            line.output(&["-crf", &crf.to_string()]);
        }
        match (video.codec, &video.preset) {
            (VideoCodec::Vp9, _) => line.output(&["-b:v", "0", "-row-mt", "0"]),
            (_, Some(preset)) => line.output(&["-preset", preset]),
            (_, None) => {}
        }
        if video.codec == VideoCodec::Hevc {
            let limits = format!("pools={threads}:frame-threads=1:log-level=error");
            line.output(&["-tag:v", "hvc1", "-x265-params", &limits]);
        }
        if video.codec == VideoCodec::Av1 {
            line.output(&["-svtav1-params", &format!("lp={threads}")]);
        }
        let is_clip = self.options.clips.is_some();
        if let Some(audio) = &self.media.audio {
            let encoder =
                if can_copy_audio(self.media, video.codec) && !is_clip { "copy" } else { video.codec.audio().0 };
            line.output(&["-map", &format!("{input}:{}", audio.index), "-c:a", encoder]);
        }
        line.finish(&names.media(video.codec.extension()), video.codec.extension() == "mp4");
    }

    /// Adds audio outputs, and clips that are copied without decoding.
    fn audio_outputs(&self, line: &mut CommandLine, input: usize, names: &OutputNames, is_clip: bool) {
        if self.action == MediaAction::Copy {
            for index in [self.media.video.as_ref().map(|v| v.index), self.media.audio.as_ref().map(|s| s.index)] {
                index.into_iter().for_each(|index| line.output(&["-map", &format!("{input}:{index}")]));
            }
            line.output(&["-c", "copy", "-avoid_negative_ts", "make_zero"]);
            line.finish(&names.media(self.extension), matches!(self.extension, "mp4" | "mov" | "m4v" | "m4a"));
        }
        let Some(stream) = &self.media.audio else { return };
        if self.action == MediaAction::EncodeAudio && is_clip {
            line.output(&["-map", &format!("{input}:{}", stream.index)]);
            line.finish(&names.media(self.extension), false);
        }
        if let Some(audio) = self.options.audio.as_ref().filter(|_| self.audio) {
            line.output(&["-map", &format!("{input}:{}", stream.index), "-c:a", audio.format.encoder()]);
            if let Some(rate) = audio.rate {
                line.output(&["-ar", &rate.to_string()]);
            }
            if let Some(channels) = audio.channels {
                line.output(&["-ac", &channels.to_string()]);
            }
            line.finish(&names.audio(audio.format.extension()), audio.format == AudioFormat::M4a);
        }
    }
}

/// Lists the frames that differ from the previous one by more than `threshold`. The first frame passes too, because an
/// output must not be empty.
fn scene_output(line: &mut CommandLine, input: usize, threshold: f64) -> FilterChain {
    line.output(&["-map", &format!("[c{input}]"), "-f", "null", "-"]);
    let detect = format!("select='gt(scene,{threshold})+eq(n,0)'");
    FilterChain::new(vec![detect, format!("metadata=mode=print:file={CUTS_FILE}")], format!("c{input}"))
}

fn with(first: &str, rest: &[String]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest.iter().cloned()).collect()
}

/// The filters, followed by the pixel format that the image needs.
fn for_image(mut filters: Vec<String>, format: StillFormat) -> Vec<String> {
    filters.push(format!("format={}", if format == StillFormat::Jpg { "yuvj420p" } else { "rgb24" }));
    filters
}

/// Whether the audio can be copied next to video of this codec.
fn can_copy_audio(media: &MediaInfo, codec: VideoCodec) -> bool {
    media.audio.as_ref().is_some_and(|audio| codec.audio().1.contains(&audio.codec.as_str()))
}
