//! Which members of a sample are images, what they are called afterwards, and what its JSON says about them.

use serde_json::{Map, Value, json};
use tarpipe::run::memory::{Held, Turn};
use tarpipe::sample::{Member, Sample};

use crate::blur::{self, Box};
use crate::encode::Format;
use crate::engine::{self, Done, Engine};
use crate::exif;
use crate::failure::{Code, Failure};
use crate::head::Head;
use crate::job::Job;
use crate::memory;
use crate::options::Options;

/// What is done with every sample.
pub struct Work {
    pub options: Options,
    /// Extensions or whole fields that are images.
    pub fields: Vec<String>,
    /// The key of the boxes to blur, in the sample's JSON.
    pub blur: Option<String>,
    /// Whether EXIF tags go into the JSON.
    pub exif: bool,
    /// The memory that one image may need.
    pub memory: u64,
}

/// An image field and what became of it. A sample without images has one that failed, without a name.
pub struct Image {
    pub field: String,
    pub result: Result<Done, Failure>,
}

impl Work {
    /// Processes all images of a sample, once there is memory for them. It is changed only when none has failed. The
    /// memory is held for the new images, until they are written.
    pub fn process(&self, sample: &mut Sample, engine: &mut Engine, turn: Turn) -> (Vec<Image>, Held) {
        let mut facts =
            sample.get("json").and_then(|member| serde_json::from_slice::<Map<String, Value>>(&member.data).ok());
        let boxes = self.boxes(facts.as_ref());
        let chosen: Vec<usize> = (0..sample.members.len()).filter(|&i| self.takes(&sample.members[i].field)).collect();
        let members: Vec<&Member> = chosen.iter().map(|&i| &sample.members[i]).collect();
        let (mut images, mut held) = self.images(&members, &boxes, engine, turn);
        if images.is_empty() {
            let failure = Failure::new(Code::NoImage, "no image field in the sample");
            images.push(Image { field: "*".into(), result: Err(failure) });
        }
        if images.iter().all(|image| image.result.is_ok()) {
            replace(sample, &chosen, &mut images);
            if sample.get("json").is_none() {
                facts = Some(Map::new());
            }
            if let Some(facts) = facts {
                self.tell(sample, facts, &images);
            }
        } else {
            images.iter_mut().filter_map(|image| image.result.as_mut().ok()).for_each(|done| done.bytes = None);
        }
        held.shrink_to(images.iter().filter_map(|image| image.result.as_ref().ok()?.written).sum::<usize>() as u64);
        (images, held)
    }

    /// What becomes of each image of a sample.
    fn images(
        &self,
        members: &[&Member],
        boxes: &Result<Vec<Box>, Failure>,
        engine: &mut Engine,
        turn: Turn,
    ) -> (Vec<Image>, Held) {
        let heads: Vec<Result<Head, Failure>> = members.iter().map(|member| engine::read_head(&member.data)).collect();
        let pairs = members.iter().zip(&heads);
        let jobs: Vec<Result<Job, Failure>> = pairs.map(|(member, head)| self.job(&member.data, head, boxes)).collect();
        let held = turn.take(memory::of_all(jobs.iter().flatten()));
        let images = members.iter().zip(jobs).map(|(member, job)| Image {
            field: member.field.clone(),
            result: job.and_then(|job| engine.process(&job)),
        });
        (images.collect(), held)
    }

    /// Plans one image; fails where a filter or the memory leaves it out.
    fn job<'a>(
        &'a self,
        bytes: &'a [u8],
        head: &'a Result<Head, Failure>,
        boxes: &'a Result<Vec<Box>, Failure>,
    ) -> Result<Job<'a>, Failure> {
        let boxes = boxes.as_ref().map_err(Clone::clone)?;
        let job = Job::new(bytes, head.as_ref().map_err(Clone::clone)?, boxes, &self.options)?;
        memory::check(&job, self.memory)?;
        Ok(job)
    }

    fn takes(&self, field: &str) -> bool {
        let extension = field.rsplit('.').next().unwrap_or(field);
        self.fields.iter().any(|name| name.eq_ignore_ascii_case(extension) || name == field)
    }

    /// A key that is missing fails: a misspelt one must not leave faces in a dataset.
    fn boxes(&self, facts: Option<&Map<String, Value>>) -> Result<Vec<Box>, Failure> {
        let Some(key) = &self.blur else { return Ok(Vec::new()) };
        let missing = || Failure::new(Code::Boxes, format!("no '{key}' in the sample's json"));
        blur::boxes(facts.and_then(|facts| facts.get(key)).ok_or_else(missing)?)
    }

    /// Writes what is known about the images into the JSON: of the first as it is, of others under their field.
    fn tell(&self, sample: &mut Sample, mut facts: Map<String, Value>, images: &[Image]) {
        for (i, image) in images.iter().enumerate() {
            let Ok(done) = &image.result else { continue };
            let known = self.facts(done);
            if i == 0 {
                facts.extend(known);
            } else {
                facts.insert(image.field.clone(), known.into());
            }
        }
        sample.set("json", Value::from(facts).to_string().into_bytes());
    }

    fn facts(&self, done: &Done) -> Map<String, Value> {
        let mut facts = Map::new();
        facts.insert("width".into(), done.size.width.into());
        facts.insert("height".into(), done.size.height.into());
        facts.insert("original_width".into(), done.original.width.into());
        facts.insert("original_height".into(), done.original.height.into());
        facts.insert("format".into(), json!(done.format.name()));
        if self.exif {
            facts.insert("exif".into(), done.exif.as_deref().map(exif::tags).unwrap_or_default().into());
        }
        facts
    }
}

/// Puts the new images in the places of the old, under names that fit their format.
fn replace(sample: &mut Sample, chosen: &[usize], images: &mut [Image]) {
    for (&i, image) in chosen.iter().zip(images) {
        let Ok(done) = &mut image.result else { continue };
        let Some(bytes) = done.bytes.take() else { continue };
        let others = sample.members.iter().enumerate().filter(|(other, _)| *other != i);
        let taken: Vec<&str> = others.map(|(_, member)| member.field.as_str()).collect();
        image.field = renamed(&sample.members[i].field, done.format, &taken);
        done.written = Some(bytes.len());
        sample.members[i] = Member::new(image.field.clone(), bytes);
    }
}

/// The field with the extension of its new format; behind the old one where that name is taken.
fn renamed(field: &str, format: Format, taken: &[&str]) -> String {
    let (stem, extension) = field.rsplit_once('.').map_or(("", field), |(stem, extension)| (stem, extension));
    if format.has_extension(extension) {
        return field.to_owned();
    }
    let dot = if stem.is_empty() { "" } else { "." };
    let new = format!("{stem}{dot}{}", format.name());
    let is_taken = taken.iter().any(|other| other.eq_ignore_ascii_case(&new));
    if is_taken { format!("{field}.{}", format.name()) } else { new }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_get_the_extension_of_their_format() {
        assert_eq!(renamed("jpg", Format::Jpg, &[]), "jpg");
        assert_eq!(renamed("left.JPEG", Format::Jpg, &[]), "left.JPEG");
        assert_eq!(renamed("png", Format::Jpg, &["json"]), "jpg");
        assert_eq!(renamed("left.png", Format::Webp, &["png"]), "left.webp");
        assert_eq!(renamed("png", Format::Jpg, &["jpg"]), "png.jpg");
    }
}
