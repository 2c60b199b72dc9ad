//! From the files that a run has written to the fields of a sample.

use std::path::Path;

use tarpipe::run::failure::Failure;
use tarpipe::sample::{Member, Sample};

use super::graph::Plan;
use super::outputs::{CUTS, Main, Names};
use super::time;

/// Puts what was made of the n-th clip into the sample whose media stands at `at`.
pub fn collect(mut sample: Sample, at: usize, plan: &Plan<'_>, directory: &Path, n: usize) -> Result<Sample, Failure> {
    let names = Names::new(n);
    let extension = match plan.main {
        Main::Encode => plan.wanted.video.codec.extension(),
        _ => plan.extension,
    };
    let mut sound = match plan.wanted.sound.as_ref().filter(|_| plan.sound) {
        Some(sound) => {
            Some(Member::new(sound.format.extension(), take(directory, &names.sound(sound.format.extension()))?))
        }
        None => None,
    };
    match plan.main {
        Main::Keep => {}
        Main::Drop if plan.media.video.is_none() && sound.is_some() => {
            let taken = sample.members.remove(at);
            let new = renamed(&taken.field, sound.as_ref().map_or("", |sound| &sound.field), &sample);
            let data = sound.take().map(|sound| sound.data).unwrap_or_default();
            sample.members.insert(at, Member::new(new, data));
        }
        Main::Drop => drop(sample.members.remove(at)),
        Main::Encode | Main::Copy | Main::Sound => {
            let data = take(directory, &names.main(extension))?;
            let taken = sample.members.remove(at);
            let new = renamed(&taken.field, extension, &sample);
            sample.members.insert(at, Member::new(new, data));
        }
    }
    if let Some(sound) = sound {
        sample.set(&sound.field, sound.data);
    }
    images(&mut sample, plan, directory, &names)?;
    Ok(sample)
}

fn images(sample: &mut Sample, plan: &Plan<'_>, directory: &Path, names: &Names) -> Result<(), Failure> {
    let extension = plan.wanted.pictures.format.extension();
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
    let data = std::fs::read(&path).map_err(|err| Failure::io("read what ffmpeg wrote", &err))?;
    _ = std::fs::remove_file(path);
    Ok(data)
}

/// The field with another extension; behind the old one where that name is taken.
fn renamed(field: &str, extension: &str, others: &Sample) -> String {
    let (stem, old) = field.rsplit_once('.').map_or(("", field), |(stem, old)| (stem, old));
    if old.eq_ignore_ascii_case(extension) {
        return field.to_owned();
    }
    let dot = if stem.is_empty() { "" } else { "." };
    let new = format!("{stem}{dot}{extension}");
    let is_taken = others.members.iter().any(|member| member.field.eq_ignore_ascii_case(&new));
    if is_taken { format!("{field}.{extension}") } else { new }
}

/// The spans between the changes of scene that a run has written down, each of which comes at least `shortest` seconds
/// after the one before.
pub fn scenes(directory: &Path, duration: Option<f64>, shortest: f64) -> Vec<[f64; 2]> {
    let said = std::fs::read_to_string(directory.join(CUTS)).unwrap_or_default();
    _ = std::fs::remove_file(directory.join(CUTS));
    let times = said.lines().filter_map(|line| line.split_once("pts_time:")).skip(1); // the first frame
    let mut last = 0.0;
    let mut is_far = |time: &f64| {
        let is_far = time - last >= shortest - 1e-6;
        last = if is_far { *time } else { last };
        is_far
    };
    let changes = times.filter_map(|(_, time)| time.trim().parse::<f64>().ok()).filter(|time| is_far(time));
    let edges: Vec<f64> = std::iter::once(0.0).chain(changes).chain(duration).map(time::round).collect();
    edges.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| [pair[0], pair[1]]).collect()
}
