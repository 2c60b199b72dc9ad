//! The command line: every flag, and the checks on how flags combine.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{DecodingFlags, InputFlags, OutputFlags, ParallelFlags, SampleLimit, Usage, Verbosity};
use tarpipe::tally::MaxFailures;
use tarpipe::value::duration;
use tarpipe::value::list::List;

use crate::tarvideo::clips::timestamp;
use crate::tarvideo::clips::{ClipOptions, SpanSource};
use crate::tarvideo::flag_values::{
    AudioFormat, EvenSize, FrameRate, FrameSelection, MaxLength, NoMedia, OnMediaError, Precision, Scale, StillFormat,
    VideoCodec,
};
use crate::tarvideo::options::MediaOptions;
use crate::tarvideo::options::{AudioOptions, FrameGeometry, StillOptions, VideoOptions};

/// Clip, scale, re-time, probe and split the video and audio of samples with ffmpeg
///
/// Takes the first video or audio of every sample (by the extension of its field), does everything in one
/// run of ffmpeg, in memory, and adds the results to the sample: the new video replaces the old one, audio
/// is KEY.mp3, images are KEY.00000.jpg, KEY.00001.jpg …, metadata is in KEY.json. Other fields pass
/// unchanged. Geometry applies in the order scale, crop, pad, to images too.
///
/// With --clip or --max-length a sample becomes samples KEY_00000, KEY_00001 …, each with all fields of the
/// original and its span under clip in the json.
///
/// ffmpeg 5.1 or newer and ffprobe must be on the PATH. They can read only the one file: no playlists, no
/// network. The output is the same for any -p, given the same --threads and ffmpeg.
///
/// Failed samples are left out and counted under these codes: no_media, no_video, no_audio, decode, truncated,
/// unsupported, timeout, memory, too_large, too_short, bad_clip, no_clip, bad_json, crashed, system. At the
/// end the exit status is 3 unless --max-failures tolerates that many. If the machine runs out of
/// processes, file descriptors, memory or room for temporary files, the run fails and no sample is blamed.
#[derive(Parser)]
#[command(name = "tarvideo", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Cut clips: the spans in FIELD, or in the sample's json at PATH
    ///
    /// Spans are in seconds or H:M:S.f: JSON such as [[1.5, 4], ["0:01:00", "0:01:08"]] or
    /// [{"start": 1.5, "end": 4}], or lines of start and end. Subtitles (vtt, srt) are clips with their text
    /// as txt. --cuts --clip json.cuts makes a clip of each scene.
    #[arg(long, value_name = "FIELD|json.PATH")]
    clip: Option<SpanSource>,

    /// Precision of the cuts
    ///
    /// copy and keyframe do not re-encode: copy starts at the keyframe before the span, keyframe starts and
    /// ends at the keyframes within it. exact re-encodes and is accurate to the frame.
    #[arg(long, value_name = "copy|keyframe|exact", default_value = "exact")]
    precision: Precision,

    /// Skip clips shorter than TIME
    #[arg(long, value_name = "TIME", value_parser = timestamp::length)]
    min_length: Option<f64>,

    /// Cut clips longer than TIME into several (all), or keep their beginning (first)
    ///
    /// Without --clip the whole video is cut.
    #[arg(long, value_name = "TIME[:all|first]")]
    max_length: Option<MaxLength>,

    /// Scale the short side to N pixels, the width to W or the height to H; the other side follows
    #[arg(long, value_name = "N|Wx|xH")]
    scale: Option<Scale>,

    /// Crop to the centre; smaller videos stay as they are
    #[arg(long, value_name = "N|WxH")]
    crop: Option<EvenSize>,

    /// Pad with black; larger videos stay as they are
    #[arg(long, value_name = "N|WxH")]
    pad: Option<EvenSize>,

    /// Change the frame rate to N per second, such as 10 or 30000/1001
    #[arg(long, value_name = "N")]
    fps: Option<FrameRate>,

    /// Video codec [default: h264, if the video has to be encoded]
    ///
    /// vp9 goes into webm with Opus, the others into mp4 with AAC.
    #[arg(long, value_name = "h264|hevc|vp9|av1")]
    codec: Option<VideoCodec>,

    /// Quality of the encoder, lower is better [default: the encoder's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=63))]
    crf: Option<u8>,

    /// Speed of the encoder, such as veryfast (h264, hevc) or 8 (av1) [default: the encoder's own]
    #[arg(long, value_name = "NAME", value_parser = preset)]
    preset: Option<String>,

    /// Drop the video itself; keep images, audio and metadata
    #[arg(long)]
    no_video: bool,

    /// Write frames as images: all (fps), N per second, the keyframes or the first
    #[arg(long, value_name = "fps|N|keyframe|first")]
    frames: Option<FrameSelection>,

    /// Write a representative image, as KEY.thumbnail.jpg
    ///
    /// It is the most typical of one frame per second within the first 100 s.
    #[arg(long)]
    thumbnail: bool,

    /// Image format
    #[arg(long, value_name = "jpg|png", default_value = "jpg")]
    image: StillFormat,

    /// Write the audio as a field of its own, if there is any
    ///
    /// If nothing else is asked for (--no-video), media without audio fail.
    #[arg(long, value_name = "mp3|flac|wav|m4a")]
    audio: Option<AudioFormat>,

    /// Audio sample rate, such as 16000 [default: unchanged]
    #[arg(long, value_name = "HZ", requires = "audio", value_parser = clap::value_parser!(u32).range(4000..=192_000))]
    rate: Option<u32>,

    /// Audio channels [default: unchanged]
    #[arg(long, value_name = "N", requires = "audio", value_parser = clap::value_parser!(u8).range(1..=8))]
    channels: Option<u8>,

    /// Write ffprobe's output for the input into the json, under probe
    #[arg(long)]
    probe: bool,

    /// Write the scenes into the json, under cuts: spans between changes of more than X (0 to 1) [X: 0.3]
    #[arg(long, value_name = "X", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0.3", value_parser = share)]
    cuts: Option<f64>,

    /// With --cuts: ignore a change less than N frames after the previous one [default: 0]
    #[arg(long, value_name = "N", requires = "cuts")]
    min_scene: Option<u32>,

    /// Keep the decodable part of truncated media, and of media with more than 2 % damage
    #[arg(long)]
    allow_damaged: bool,

    /// Fields that are media, by extension
    ///
    /// A list, separated by commas or blanks.
    #[arg(
        long,
        value_name = "FIELDS",
        default_value = "mp4 webm mkv mov avi m4v mpg mpeg ts flv wmv ogv 3gp gif mp3 flac wav ogg opus m4a aac"
    )]
    fields: List,

    /// What to do with a sample without media
    #[arg(long, value_name = "fail|pass", default_value = "fail")]
    no_media: NoMedia,

    /// Use N threads per ffmpeg; -p is the number of ffmpegs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,

    /// Give up on a sample after TIME, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration::parse_limit)]
    timeout: Duration,

    /// What to do with a failed sample or clip: skip it, or pass only its json
    ///
    /// pass is for a tool at the end of the pipe that records every sample, such as tardataset: the json gets
    /// status failed, tool, code and error_message. Samples that fetch --pass-failed has marked as failed pass
    /// unchanged.
    #[arg(long, value_name = "skip|pass", default_value = "skip")]
    on_error: OnMediaError,

    /// Exit with status 3 if more than N samples (or P%) fail
    #[arg(long, value_name = "N|P%", default_value = "0")]
    pub max_failures: MaxFailures,

    /// Write a report with one row per sample to FILE (.jsonl, .csv or .parquet)
    #[arg(long, value_name = "FILE")]
    pub report: Option<String>,

    /// Let ffmpeg write to DIR [default: a tmpfs with room, else TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub tmpdir: Option<PathBuf>,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub decoding: DecodingFlags,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Small, at ten frames per second, with audio for a speech model and ffprobe's output
  tarvideo --scale 360 --fps 10 --audio flac --rate 16000 --channels 1 --probe raw.tar -o small.tar

  # Clips of 2 to 10 seconds at the spans listed in the json, accurate to the frame
  tarvideo --clip json.segments --min-length 2 --max-length 10 raw.tar -o clips.tar

  # A clip for each subtitle, and one for each scene
  tarvideo --clip vtt raw.tar -o said.tar
  tarvideo --cuts --clip json.cuts --precision keyframe raw.tar -o scenes.tar

  # Two square stills per second, and no video
  tarvideo --scale 256 --crop 256 --frames 2 --no-video raw.tar -o stills.tar";

impl Args {
    /// Checks how the flags combine and returns what to do with every sample.
    pub fn options(&self) -> Result<MediaOptions> {
        let cutting = self.clip.is_some() || self.max_length.is_some();
        self.check(cutting)?;
        let exact = self.precision == Precision::Exact;
        let encode = self.changes_video() || (cutting && exact);
        let fields: Vec<String> = self.fields.iter().map(|field| field.to_ascii_lowercase()).collect();
        Ok(MediaOptions {
            clips: cutting.then(|| ClipOptions {
                source: self.clip.clone(),
                min_length: self.min_length,
                max_length: self.max_length,
                keyframes: self.precision == Precision::Keyframe,
            }),
            video: VideoOptions {
                encode: encode && !self.no_video,
                copy: cutting && !encode && !self.no_video,
                drop: self.no_video,
                codec: self.codec.unwrap_or(VideoCodec::H264),
                crf: self.crf,
                preset: self.preset.clone(),
            },
            geometry: FrameGeometry { scale: self.scale, crop: self.crop, pad: self.pad },
            fps: self.fps.clone(),
            stills: StillOptions { frames: self.frames.clone(), thumbnail: self.thumbnail, format: self.image },
            audio: self.audio.map(|format| AudioOptions { format, rate: self.rate, channels: self.channels }),
            probe: self.probe,
            cuts: self.cuts,
            min_scene: self.min_scene.unwrap_or(0),
            strict: !self.allow_damaged,
            threads: self.threads,
            fields,
            pass_others: self.no_media == NoMedia::Pass,
            pass_failed: self.on_error == OnMediaError::Pass,
            timeout: self.timeout,
            max_bytes: self.held.max_sample,
        })
    }

    fn check(&self, cutting: bool) -> Result<()> {
        let makes_images = self.frames.is_some() || self.thumbnail;
        if !(cutting
            || self.changes_video()
            || makes_images
            || self.audio.is_some()
            || self.probe
            || self.cuts.is_some())
        {
            bail!(Usage("nothing to do; give --clip, --scale, --fps, --frames, --audio, --probe or the like".into()));
        }
        if self.precision != Precision::Exact && !cutting {
            bail!(Usage("--precision applies to clips only; give --clip or --max-length".into()));
        }
        if self.precision != Precision::Exact && self.changes_video() && !self.no_video {
            bail!(Usage(
                "--scale, --crop, --pad, --fps and --codec re-encode the video; remove them or --precision".into()
            ));
        }
        if self.min_length.is_some() && !cutting {
            bail!(Usage("--min-length applies to clips only; give --clip or --max-length".into()));
        }
        if (self.crf.is_some() || self.preset.is_some()) && (self.no_video || !(self.changes_video() || cutting)) {
            bail!(Usage("--crf and --preset apply to encoded video only; give --codec".into()));
        }
        if self.no_video && self.codec.is_some() {
            bail!(Usage("--no-video leaves nothing to encode; remove --codec".into()));
        }
        if self.preset.is_some() && self.codec == Some(VideoCodec::Vp9) {
            bail!(Usage("--preset applies to h264, hevc and av1 only".into()));
        }
        Ok(())
    }

    fn changes_video(&self) -> bool {
        let geometry = self.scale.is_some() || self.crop.is_some() || self.pad.is_some();
        geometry || self.fps.is_some() || self.codec.is_some()
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "not a number from 0 to 1".into())
}

fn preset(text: &str) -> Result<String, String> {
    let is_plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_plain { Ok(text.to_owned()) } else { Err("invalid preset (write a name such as veryfast)".into()) }
}
