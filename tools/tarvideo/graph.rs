//! The command line of a run: inputs, one graph of filters for everything, and the outputs.

use std::process::Command;

use super::choices::{Audio, Codec, Frames, Image};
use super::ffmpeg::{self, MEDIA};
use super::job::Wanted;
use super::media::{Media, Picture};
use super::outputs::{CUTS, Main, Names, keeps_sound, short_side};
use super::program;
use super::spans::Span;
use super::time;
use super::words::{Branch, Words};

/// The time of a keyframe was rounded: seeking to one aims behind it, and what ends at one ends before it.
const MARGIN: f64 = 0.001;

/// What a run makes of each of its clips.
pub struct Plan<'a> {
    pub wanted: &'a Wanted,
    pub media: &'a Media,
    pub main: Main,
    /// The extension of the media's field.
    pub extension: &'a str,
    /// The sound as a field of its own.
    pub sound: bool,
    pub frames: bool,
    pub thumbnail: bool,
    pub cuts: bool,
}

impl Plan<'_> {
    /// Whether ffmpeg is needed at all.
    pub fn is_empty(&self) -> bool {
        let keeps = matches!(self.main, Main::Keep | Main::Drop);
        keeps && !(self.sound || self.frames || self.thumbnail || self.cuts)
    }

    /// The command for these clips; None is the whole.
    pub fn command(&self, clips: &[(usize, Option<&Span>)]) -> Command {
        let mut words = Words::default();
        for (at, (n, span)) in clips.iter().enumerate() {
            self.input(&mut words, *span);
            if let Some(picture) = &self.media.video {
                self.pictures(&mut words, at, &Names::new(*n), picture);
            }
            self.voices(&mut words, at, &Names::new(*n), span.is_some());
        }
        let mut command = program::command("ffmpeg");
        command.args(["-hide_banner", "-v", "error", "-nostats", "-nostdin", "-y", "-abort_on", "empty_output"]);
        command.args(["-filter_threads", "1", "-filter_complex_threads", "1"]);
        command.args(["-max_error_rate", if self.wanted.strict { "0.02" } else { "1" }]);
        command.args(&words.inputs);
        if !words.graph.is_empty() {
            command.args(["-filter_complex", &words.graph.join(";")]);
        }
        command.args(&words.outputs);
        command
    }

    fn input(&self, words: &mut Words, span: Option<&Span>) {
        let threads = self.wanted.threads.to_string();
        words.input(&["-threads", &threads]);
        words.input(&ffmpeg::input_flags());
        if self.main != Main::Encode && self.only_keyframes() {
            words.input(&["-skip_frame", "nokey"]);
        }
        if self.main == Main::Copy {
            words.input(&["-noaccurate_seek"]); // images and sound begin where the copy does
        }
        if let Some(span) = span {
            let at_keyframes = self.wanted.clips.as_ref().is_some_and(|clips| clips.keyframes);
            let margin = if at_keyframes && self.main == Main::Copy { MARGIN } else { 0.0 };
            let length = span.length() - 2.0 * margin;
            words.input(&["-ss", &time::show(span.start + margin), "-t", &time::show(length)]);
        }
        words.input(&["-i", MEDIA]);
    }

    /// Whether nothing but keyframes is looked at, so that nothing else need be decoded.
    fn only_keyframes(&self) -> bool {
        let frames = self.wanted.pictures.frames.as_ref().filter(|_| self.frames);
        frames == Some(&Frames::Keyframe) && !self.thumbnail && !self.cuts
    }

    /// Everything that is made of the video: some of it looks at the source, the rest at the source re-timed and
    /// resized.
    fn pictures(&self, words: &mut Words, at: usize, names: &Names, picture: &Picture) {
        let geometry = self.wanted.geometry.filters(picture.is_square);
        let (mut of_source, mut of_main) = (Vec::new(), Vec::new());
        if self.main == Main::Encode {
            let even = "crop=w='trunc(iw/2)*2':h='trunc(ih/2)*2',format=yuv420p";
            of_main.push(Branch::new(vec![even.into()], format!("v{at}")));
            self.encode(words, at, names, picture);
        }
        match self.wanted.pictures.frames.as_ref().filter(|_| self.frames) {
            Some(Frames::Keyframe) => {
                of_source.push(self.frames(words, at, names, "%06d", with("select=key", &geometry)))
            }
            Some(Frames::All) => of_main.push(self.frames(words, at, names, "%06d", Vec::new())),
            Some(Frames::Rate(rate)) => {
                of_main.push(self.frames(words, at, names, "%06d", vec![format!("fps={}", rate.0)]));
            }
            Some(Frames::First) => {
                of_main.push(self.frames(words, at, names, "000001", vec!["select='eq(n,0)'".into()]));
            }
            None => {}
        }
        if self.thumbnail {
            of_main.push(self.representative(words, at, names));
        }
        if let Some(threshold) = self.wanted.cuts.filter(|_| self.cuts) {
            of_source.push(scenes(words, at, threshold));
        }
        let fps = self.wanted.fps.as_ref().map(|rate| format!("fps={}", rate.0));
        let main = format!("main{at}");
        if !of_main.is_empty() {
            of_source.push(Branch::new(fps.into_iter().chain(geometry).collect(), main.clone()));
        }
        words.split(&format!("{at}:{}", picture.index), of_source);
        words.split(&main, of_main);
    }

    fn frames(&self, words: &mut Words, at: usize, names: &Names, number: &str, filters: Vec<String>) -> Branch {
        let format = self.wanted.pictures.format;
        let label = format!("f{at}");
        words.image(&label, &names.frame(number, format.extension()), format, !number.starts_with('%'));
        Branch::new(for_image(filters, format), label)
    }

    fn representative(&self, words: &mut Words, at: usize, names: &Names) -> Branch {
        let format = self.wanted.pictures.format;
        let label = format!("t{at}");
        words.image(&label, &names.thumbnail(format.extension()), format, true);
        let small = short_side("min(iw,256)", "min(ih,256)");
        Branch::new(for_image(vec![format!("fps=1:round=up,{small},thumbnail=100")], format), label)
    }

    fn encode(&self, words: &mut Words, at: usize, names: &Names, picture: &Picture) {
        let video = &self.wanted.video;
        let threads = self.wanted.threads.to_string();
        words.output(&["-map", &format!("[v{at}]"), "-c:v", video.codec.encoder(), "-fps_mode", "vfr"]);
        words.output(&["-threads:v", &threads]);
        if self.wanted.fps.is_none() && picture.is_uneven {
            words.output(&["-enc_time_base:v", "1/90000"]); // else times are rounded to a frame rate
        }
        if let Some(crf) = video.crf {
            words.output(&["-crf", &crf.to_string()]);
        }
        match (video.codec, &video.preset) {
            (Codec::Vp9, _) => words.output(&["-b:v", "0", "-row-mt", "0"]),
            (_, Some(preset)) => words.output(&["-preset", preset]),
            (_, None) => {}
        }
        if video.codec == Codec::Hevc {
            let limits = format!("pools={threads}:frame-threads=1:log-level=error");
            words.output(&["-tag:v", "hvc1", "-x265-params", &limits]);
        }
        if video.codec == Codec::Av1 {
            words.output(&["-svtav1-params", &format!("lp={threads}")]);
        }
        let is_clip = self.wanted.clips.is_some();
        if let Some(sound) = &self.media.sound {
            let encoder = if keeps_sound(self.media, video.codec) && !is_clip { "copy" } else { video.codec.sound().0 };
            words.output(&["-map", &format!("{at}:{}", sound.index), "-c:a", encoder]);
        }
        words.finish(&names.main(video.codec.extension()), video.codec.extension() == "mp4");
    }

    /// What is not decoded as video: sound, and parts that are copied.
    fn voices(&self, words: &mut Words, at: usize, names: &Names, is_clip: bool) {
        if self.main == Main::Copy {
            for index in [self.media.video.as_ref().map(|v| v.index), self.media.sound.as_ref().map(|s| s.index)] {
                index.into_iter().for_each(|index| words.output(&["-map", &format!("{at}:{index}")]));
            }
            words.output(&["-c", "copy", "-avoid_negative_ts", "make_zero"]);
            words.finish(&names.main(self.extension), matches!(self.extension, "mp4" | "mov" | "m4v" | "m4a"));
        }
        let Some(voice) = &self.media.sound else { return };
        if self.main == Main::Sound && is_clip {
            words.output(&["-map", &format!("{at}:{}", voice.index)]);
            words.finish(&names.main(self.extension), false);
        }
        if let Some(sound) = self.wanted.sound.as_ref().filter(|_| self.sound) {
            words.output(&["-map", &format!("{at}:{}", voice.index), "-c:a", sound.format.encoder()]);
            if let Some(rate) = sound.rate {
                words.output(&["-ar", &rate.to_string()]);
            }
            if let Some(channels) = sound.channels {
                words.output(&["-ac", &channels.to_string()]);
            }
            words.finish(&names.sound(sound.format.extension()), sound.format == Audio::M4a);
        }
    }
}

/// Writes down where the picture changes by more than `threshold`. The first frame passes too: an output must
/// not be empty.
fn scenes(words: &mut Words, at: usize, threshold: f64) -> Branch {
    words.output(&["-map", &format!("[c{at}]"), "-f", "null", "-"]);
    let detect = format!("select='gt(scene,{threshold})+eq(n,0)'");
    Branch::new(vec![detect, format!("metadata=mode=print:file={CUTS}")], format!("c{at}"))
}

fn with(first: &str, rest: &[String]) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(rest.iter().cloned()).collect()
}

/// The same filters, and after them the pixels that the format needs.
fn for_image(mut filters: Vec<String>, format: Image) -> Vec<String> {
    filters.push(format!("format={}", if format == Image::Jpg { "yuvj420p" } else { "rgb24" }));
    filters
}
