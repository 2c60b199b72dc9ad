//! Moves the files that ffmpeg has written into the fields of a sample.

use std::path::Path;

use tarpipe::run::failure::Failure;
use tarpipe::sample::{Member, Sample};

use crate::tarvideo::clips::timestamp;
use crate::tarvideo::ffmpeg::output_files::{CUTS_FILE, OutputNames};
use crate::tarvideo::ffmpeg::plan::FfmpegPlan;
use crate::tarvideo::options::MediaAction;

/// Adds the outputs of the n-th clip to the sample, whose media is the member at `position`.
pub fn collect(
    mut sample: Sample,
    position: usize,
    plan: &FfmpegPlan<'_>,
    directory: &Path,
    n: usize,
) -> Result<Sample, Failure> {
    let names = OutputNames::new(n);
    let extension = match plan.action {
        MediaAction::Encode => plan.options.video.codec.extension(),
        _ => plan.extension,
    };
    let mut audio = match plan.options.audio.as_ref().filter(|_| plan.audio) {
        Some(audio) => {
            Some(Member::new(audio.format.extension(), take(directory, &names.audio(audio.format.extension()))?))
        }
        None => None,
    };
    match plan.action {
        MediaAction::Keep => {}
        MediaAction::Drop if plan.media.video.is_none() && audio.is_some() => {
            let taken = sample.members.remove(position);
            let new = field_for(&taken.field, audio.as_ref().map_or("", |audio| &audio.field), &sample);
            let data = audio.take().map(|audio| audio.data).unwrap_or_default();
            sample.members.insert(position, Member::new(new, data));
        }
        MediaAction::Drop => drop(sample.members.remove(position)),
        MediaAction::Encode | MediaAction::Copy | MediaAction::EncodeAudio => {
            let data = take(directory, &names.media(extension))?;
            let taken = sample.members.remove(position);
            let new = field_for(&taken.field, extension, &sample);
            sample.members.insert(position, Member::new(new, data));
        }
    }
    if let Some(audio) = audio {
        sample.set(&audio.field, audio.data);
    }
    add_images(&mut sample, plan, directory, &names)?;
    Ok(sample)
}

fn add_images(
    sample: &mut Sample,
    plan: &FfmpegPlan<'_>,
    directory: &Path,
    names: &OutputNames,
) -> Result<(), Failure> {
    let extension = plan.options.stills.format.extension();
    if plan.frames {
        let mut count = 0;
        loop {
            let file = names.frame(&format!("{:06}", count + 1), extension);
            if !directory.join(&file).exists() {
                break;
            }
            sample.set(&format!("{count:05}.{extension}"), take(directory, &file)?);
            count += 1;
        }
    }
    if plan.thumbnail {
        sample.set(&format!("thumbnail.{extension}"), take(directory, &names.thumbnail(extension))?);
    }
    Ok(())
}

/// Reads a file and removes it.
fn take(directory: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = directory.join(name);
    let data = std::fs::read(&path).map_err(|err| Failure::io("read ffmpeg's output", &err))?;
    _ = std::fs::remove_file(path);
    Ok(data)
}

/// The field with another extension; if that field exists, the extension is appended instead.
fn field_for(field: &str, extension: &str, others: &Sample) -> String {
    let (stem, old) = field.rsplit_once('.').map_or(("", field), |(stem, old)| (stem, old));
    if old.eq_ignore_ascii_case(extension) {
        return field.to_owned();
    }
    let dot = if stem.is_empty() { "" } else { "." };
    let new = format!("{stem}{dot}{extension}");
    let is_taken = others.members.iter().any(|member| member.field.eq_ignore_ascii_case(&new));
    if is_taken { format!("{field}.{extension}") } else { new }
}

/// The spans between the scene changes that ffmpeg has listed. A change less than `shortest` seconds after the previous
/// one is ignored.
pub fn scenes(directory: &Path, duration: Option<f64>, shortest: f64) -> Vec<[f64; 2]> {
    let listed = std::fs::read_to_string(directory.join(CUTS_FILE)).unwrap_or_default();
    _ = std::fs::remove_file(directory.join(CUTS_FILE));
    let times = listed.lines().filter_map(|line| line.split_once("pts_time:")).skip(1); // the first is not a change
    let mut last = 0.0;
    let mut is_far = |time: &f64| {
        let is_far = time - last >= shortest - 1e-6;
        last = if is_far { *time } else { last };
        is_far
    };
    let changes = times.filter_map(|(_, time)| time.trim().parse::<f64>().ok()).filter(|time| is_far(time));
    let edges: Vec<f64> = std::iter::once(0.0).chain(changes).chain(duration).map(timestamp::round).collect();
    edges.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| [pair[0], pair[1]]).collect()
}
