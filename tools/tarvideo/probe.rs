//! Looking at media with ffprobe.

use std::fs::File;
use std::path::Path;

use tarpipe::run::failure::Failure;

use super::ffmpeg::{self, Limits, MEDIA};
use super::media::Media;
use super::program;

/// What the media is.
pub fn media(file: &File, directory: &Path, limits: Limits) -> Result<Media, Failure> {
    let said = run(&["-of", "json", "-show_format", "-show_streams"], file, directory, limits)?;
    let facts =
        serde_json::from_slice(&said).map_err(|err| Failure::new("decode", format!("ffprobe's JSON: {err}")))?;
    let media = Media::new(facts);
    if media.video.is_none() && media.sound.is_none() {
        return Err(Failure::new("decode", "neither video nor sound in it"));
    }
    Ok(media)
}

/// When keyframes of the video are shown, in order. Nothing is decoded.
pub fn keyframes(file: &File, directory: &Path, limits: Limits) -> Result<Vec<f64>, Failure> {
    let entries = "packet=pts_time,flags";
    let said = run(&["-of", "csv=p=0", "-select_streams", "v:0", "-show_entries", entries], file, directory, limits)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let keys = said.lines().filter_map(|line| line.split_once(',').filter(|(_, flags)| flags.starts_with('K')));
    let mut times: Vec<f64> = keys.filter_map(|(time, _)| time.parse().ok()).collect();
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn run(flags: &[&str], file: &File, directory: &Path, limits: Limits) -> Result<Vec<u8>, Failure> {
    let mut command = program::command("ffprobe");
    command.args(["-hide_banner", "-v", "error"]).args(flags).args(ffmpeg::input_flags()).arg(MEDIA);
    ffmpeg::run(command, file, directory, limits, false)
}
