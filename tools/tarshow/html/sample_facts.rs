//! Gathers what the page needs to know about one sample; runs on all cores.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;
use tarpipe::sample::Member;

use crate::tarshow::content::FieldContent;
use crate::tarshow::pictures::card::CardMaker;
use crate::tarshow::samples::NumberedSample;
use crate::tarshow::text::printable::one_line;

const JPEG_QUALITY: u8 = 82;
/// The longest excerpt of a field in the gallery, in columns.
const MAX_COLUMNS: usize = 300;

/// What to count of a sample, and what to show if it is chosen.
pub struct SampleFacts {
    pub key: String,
    pub fields: Vec<FieldFacts>,
    pub image: Option<ImageFacts>,
    pub caption_chars: Option<u64>,
    /// Its slot in the gallery, and what to show there.
    pub chosen: Option<(usize, GalleryItem)>,
}

/// A field of a sample.
pub struct FieldFacts {
    pub name: String,
    pub bytes: u64,
    /// JPEG, JSON, text or a media type.
    pub kind: &'static str,
}

/// The image of a sample.
pub struct ImageFacts {
    /// `None` if the header is unreadable.
    pub size: Option<(u32, u32)>,
    pub bytes: u64,
}

/// A sample in the gallery.
pub struct GalleryItem {
    pub number: u64,
    pub key: String,
    pub caption: String,
    pub picture: Result<InlineThumbnail, &'static str>,
    /// For each field its name, its size and a line about its content.
    pub fields: Vec<(String, u64, String)>,
}

/// A thumbnail as a data URL's payload.
pub struct InlineThumbnail {
    pub width: u32,
    pub height: u32,
    pub base64: String,
}

/// Gathers the facts about a sample.
pub fn gather(numbered: &NumberedSample, maker: &CardMaker) -> SampleFacts {
    let sample = &numbered.sample;
    let kinds: Vec<FieldContent> = sample.members.iter().map(FieldContent::detect).collect();
    let fields = sample.members.iter().zip(&kinds).map(|(member, kind)| FieldFacts {
        name: member.field.clone(),
        bytes: member.data.len() as u64,
        kind: short_name(kind),
    });
    let drawn = maker.image(sample).and_then(|drawn| sample.members.iter().position(|m| std::ptr::eq(m, drawn)));
    let image = drawn.map(|at| ImageFacts {
        size: if let FieldContent::Image { size, .. } = kinds[at] { size } else { None },
        bytes: sample.members[at].data.len() as u64,
    });
    let caption_chars = maker.caption(sample).map(|caption| caption.chars().count() as u64);
    let chosen = numbered.slot.map(|slot| (slot, gallery_item(numbered, &kinds, maker)));
    SampleFacts { key: sample.key.clone(), fields: fields.collect(), image, caption_chars, chosen }
}

fn short_name(kind: &FieldContent) -> &'static str {
    match kind {
        FieldContent::Image { format, .. } => format,
        FieldContent::Json => "JSON",
        FieldContent::Text => "text",
        FieldContent::Media(mime) | FieldContent::Binary(Some(mime)) => mime,
        FieldContent::Binary(None) => "binary",
    }
}

fn gallery_item(numbered: &NumberedSample, kinds: &[FieldContent], maker: &CardMaker) -> GalleryItem {
    let card = maker.card(&numbered.sample);
    let describe = |(member, kind): (&Member, &FieldContent)| {
        let held = match kind {
            FieldContent::Text | FieldContent::Json => one_line(&String::from_utf8_lossy(&member.data), MAX_COLUMNS),
            kind => kind.to_string(),
        };
        (member.field.clone(), member.data.len() as u64, held)
    };
    GalleryItem {
        number: numbered.number,
        caption: card.short_caption(),
        fields: numbered.sample.members.iter().zip(kinds).map(describe).collect(),
        picture: card.picture.map(|picture| encode(&picture)),
        key: card.key,
    }
}

fn encode(picture: &RgbImage) -> InlineThumbnail {
    let mut out = Cursor::new(Vec::new());
    // Writing to memory does not fail.
    _ = picture.write_with_encoder(JpegEncoder::new_with_quality(&mut out, JPEG_QUALITY));
    InlineThumbnail { width: picture.width(), height: picture.height(), base64: STANDARD.encode(out.into_inner()) }
}
