//! Which members of a sample are images, what they are called afterwards, and what its JSON says about them.

use serde_json::{Map, Value, json};
use tarpipe::sample::{Member, Sample};

use crate::blur::{self, Box};
use crate::encode::Format;
use crate::engine::{Done, Engine};
use crate::exif;
use crate::failure::{Code, Failure};
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
}

/// An image field and what became of it. A sample without images has one that failed, without a name.
pub struct Image {
    pub field: String,
    pub result: Result<Done, Failure>,
}

impl Work {
    /// Processes all images of a sample. It is changed only when none has failed.
    pub fn process(&self, sample: &mut Sample, engine: &mut Engine) -> Vec<Image> {
        let mut facts =
            sample.get("json").and_then(|member| serde_json::from_slice::<Map<String, Value>>(&member.data).ok());
        let boxes = self.boxes(facts.as_ref());
        let chosen: Vec<usize> = (0..sample.members.len()).filter(|&i| self.takes(&sample.members[i].field)).collect();
        let mut images: Vec<Image> = Vec::new();
        for &i in &chosen {
            let Member { field, data, .. } = &sample.members[i];
            let result = boxes.clone().and_then(|boxes| engine.process(data, &boxes, &self.options));
            images.push(Image { field: field.clone(), result });
        }
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
        }
        images
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
