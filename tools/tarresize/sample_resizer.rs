//! Processes the images of one sample: finds its image fields, resizes them, renames them to their new format and
//! describes them in the sample's JSON.

use serde_json::{Map, Value, json};
use tarpipe::run::memory::{MemoryShare, MemoryTurn};
use tarpipe::sample::{Member, Sample};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::encode::TargetFormat;
use crate::tarresize::formats::exif_tags;
use crate::tarresize::formats::header::ImageHeader;
use crate::tarresize::image_job::ImageJob;
use crate::tarresize::image_resizer::{self, ImageResizer, ResizedImage};
use crate::tarresize::memory_estimate;
use crate::tarresize::options::ImageOptions;
use crate::tarresize::pixels::blur::{self, BlurBox};

/// What to do with every sample.
pub struct SampleResizer {
    pub options: ImageOptions,
    /// Extensions or whole field names of images.
    pub fields: Vec<String>,
    /// The key in the sample's JSON that lists the boxes to blur.
    pub blur: Option<String>,
    /// Whether EXIF tags are written to the JSON.
    pub exif: bool,
    /// The most memory that one image may need.
    pub memory: u64,
}

/// An image field and its result. A sample without images has a single failed one, with the field `*`.
pub struct ImageResult {
    pub field: String,
    pub result: Result<ResizedImage, ImageFailure>,
}

impl SampleResizer {
    /// Processes all images of a sample as soon as there is memory for them. The sample changes only if no image fails.
    /// The returned memory belongs to the new images and is held until they are written.
    pub fn process(
        &self,
        sample: &mut Sample,
        resizer: &mut ImageResizer,
        turn: MemoryTurn,
    ) -> (Vec<ImageResult>, MemoryShare) {
        let mut json =
            sample.get("json").and_then(|member| serde_json::from_slice::<Map<String, Value>>(&member.data).ok());
        let boxes = self.boxes_to_blur(json.as_ref());
        let positions: Vec<usize> =
            (0..sample.members.len()).filter(|&i| self.is_image_field(&sample.members[i].field)).collect();
        let members: Vec<&Member> = positions.iter().map(|&i| &sample.members[i]).collect();
        let (mut images, mut held) = self.resize_images(&members, &boxes, resizer, turn);
        if images.is_empty() {
            let failure = ImageFailure::new(ImageFailureCode::NoImage, "the sample has no image field");
            images.push(ImageResult { field: "*".into(), result: Err(failure) });
        }
        if images.iter().all(|image| image.result.is_ok()) {
            replace_images(sample, &positions, &mut images);
            if sample.get("json").is_none() {
                json = Some(Map::new());
            }
            if let Some(json) = json {
                self.describe_in_json(sample, json, &images);
            }
        } else {
            images.iter_mut().filter_map(|image| image.result.as_mut().ok()).for_each(|resized| resized.bytes = None);
        }
        held.shrink_to(images.iter().filter_map(|image| image.result.as_ref().ok()?.written).sum::<usize>() as u64);
        (images, held)
    }

    /// Resizes the images of a sample.
    fn resize_images(
        &self,
        members: &[&Member],
        boxes: &Result<Vec<BlurBox>, ImageFailure>,
        resizer: &mut ImageResizer,
        turn: MemoryTurn,
    ) -> (Vec<ImageResult>, MemoryShare) {
        let headers: Vec<Result<ImageHeader, ImageFailure>> =
            members.iter().map(|member| image_resizer::read_header(&member.data)).collect();
        let pairs = members.iter().zip(&headers);
        let jobs: Vec<Result<ImageJob, ImageFailure>> =
            pairs.map(|(member, header)| self.plan_image(&member.data, header, boxes)).collect();
        let held = turn.take(memory_estimate::for_sample(jobs.iter().flatten()));
        let images = members.iter().zip(jobs).map(|(member, job)| ImageResult {
            field: member.field.clone(),
            result: job.and_then(|job| resizer.resize(&job)),
        });
        (images.collect(), held)
    }

    /// Plans one image; fails if a filter rejects it or it needs too much memory.
    fn plan_image<'a>(
        &'a self,
        bytes: &'a [u8],
        header: &'a Result<ImageHeader, ImageFailure>,
        boxes: &'a Result<Vec<BlurBox>, ImageFailure>,
    ) -> Result<ImageJob<'a>, ImageFailure> {
        let boxes = boxes.as_ref().map_err(Clone::clone)?;
        let job = ImageJob::new(bytes, header.as_ref().map_err(Clone::clone)?, boxes, &self.options)?;
        memory_estimate::check(&job, self.memory)?;
        Ok(job)
    }

    fn is_image_field(&self, field: &str) -> bool {
        let extension = field.rsplit('.').next().unwrap_or(field);
        self.fields.iter().any(|name| name.eq_ignore_ascii_case(extension) || name == field)
    }

    /// A missing key is a failure: a misspelt one must not leave faces in a dataset.
    fn boxes_to_blur(&self, json: Option<&Map<String, Value>>) -> Result<Vec<BlurBox>, ImageFailure> {
        let Some(key) = &self.blur else { return Ok(Vec::new()) };
        let missing =
            || ImageFailure::new(ImageFailureCode::Boxes, format!("missing key '{key}' in the sample's json"));
        blur::parse_boxes(json.and_then(|json| json.get(key)).ok_or_else(missing)?)
    }

    /// Describes the images in the JSON: the first at the top level, the others under their field names.
    fn describe_in_json(&self, sample: &mut Sample, mut json: Map<String, Value>, images: &[ImageResult]) {
        for (i, image) in images.iter().enumerate() {
            let Ok(resized) = &image.result else { continue };
            let image_json = self.image_json(resized);
            if i == 0 {
                json.extend(image_json);
            } else {
                json.insert(image.field.clone(), image_json.into());
            }
        }
        sample.set("json", Value::from(json).to_string().into_bytes());
    }

    fn image_json(&self, resized: &ResizedImage) -> Map<String, Value> {
        let mut json = Map::new();
        json.insert("width".into(), resized.size.width.into());
        json.insert("height".into(), resized.size.height.into());
        json.insert("original_width".into(), resized.original.width.into());
        json.insert("original_height".into(), resized.original.height.into());
        json.insert("format".into(), json!(resized.format.name()));
        if self.exif {
            json.insert("exif".into(), resized.exif.as_deref().map(exif_tags::to_json).unwrap_or_default().into());
        }
        json
    }
}

/// Puts the new images in place of the old ones, with the extension of their format.
fn replace_images(sample: &mut Sample, positions: &[usize], images: &mut [ImageResult]) {
    for (&i, image) in positions.iter().zip(images) {
        let Ok(resized) = &mut image.result else { continue };
        let Some(bytes) = resized.bytes.take() else { continue };
        let others = sample.members.iter().enumerate().filter(|(other, _)| *other != i);
        let taken: Vec<&str> = others.map(|(_, member)| member.field.as_str()).collect();
        image.field = field_for(&sample.members[i].field, resized.format, &taken);
        resized.written = Some(bytes.len());
        sample.members[i] = Member::new(image.field.clone(), bytes);
    }
}

/// The field with the extension of its new format; if that field exists, the extension is appended instead.
fn field_for(field: &str, format: TargetFormat, taken: &[&str]) -> String {
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
        assert_eq!(field_for("jpg", TargetFormat::Jpg, &[]), "jpg");
        assert_eq!(field_for("left.JPEG", TargetFormat::Jpg, &[]), "left.JPEG");
        assert_eq!(field_for("png", TargetFormat::Jpg, &["json"]), "jpg");
        assert_eq!(field_for("left.png", TargetFormat::Webp, &["png"]), "left.webp");
        assert_eq!(field_for("png", TargetFormat::Jpg, &["jpg"]), "png.jpg");
    }
}
