//! Asks ffprobe about media.

use std::fs::File;
use std::path::Path;

use tarpipe::run::failure::Failure;

use crate::tarvideo::ffmpeg::media_info::MediaInfo;
use crate::tarvideo::ffmpeg::program;
use crate::tarvideo::ffmpeg::{self, FfmpegLimits, MEDIA};

/// Probes the media; fails if it has neither video nor audio.
pub fn media(file: &File, directory: &Path, limits: FfmpegLimits) -> Result<MediaInfo, Failure> {
    let output = run(&["-of", "json", "-show_format", "-show_streams"], file, directory, limits)?;
    let probe_output = serde_json::from_slice(&output)
        .map_err(|err| Failure::new("decode", format!("invalid JSON from ffprobe: {err}")))?;
    let media = MediaInfo::new(probe_output);
    if media.video.is_none() && media.audio.is_none() {
        return Err(Failure::new("decode", "the media has neither video nor audio"));
    }
    Ok(media)
}

/// The display times of the keyframes, in order. Nothing is decoded.
pub fn keyframes(file: &File, directory: &Path, limits: FfmpegLimits) -> Result<Vec<f64>, Failure> {
    let entries = "packet=pts_time,flags";
    let output = run(&["-of", "csv=p=0", "-select_streams", "v:0", "-show_entries", entries], file, directory, limits)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    let keys = output.lines().filter_map(|line| line.split_once(',').filter(|(_, flags)| flags.starts_with('K')));
    let mut times: Vec<f64> = keys.filter_map(|(time, _)| time.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn run(flags: &[&str], file: &File, directory: &Path, limits: FfmpegLimits) -> Result<Vec<u8>, Failure> {
    let mut command = program::command("ffprobe");
    command.args(["-hide_banner", "-v", "error"]).args(flags).args(ffmpeg::input_flags()).arg(MEDIA);
    ffmpeg::run(command, file, directory, limits, false)
}
