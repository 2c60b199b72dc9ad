//! What a page says about one sample, found out on any core.

use std::io::Cursor;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use image::RgbImage;
use image::codecs::jpeg::JpegEncoder;
use tarpipe::sample::Member;

use crate::card::Maker;
use crate::flow::Job;
use crate::kind::Kind;
use crate::readable::line;

const JPEG_QUALITY: u8 = 82;
/// Columns of a field's text that the gallery shows.
const HEAD: usize = 300;

/// What is counted of a sample, and shown if it is chosen.
pub struct Facts {
    pub key: String,
    pub fields: Vec<Field>,
    pub image: Option<Image>,
    pub caption_chars: Option<u64>,
    /// Its place in the gallery.
    pub chosen: Option<(usize, Exhibit)>,
}

/// A field of a sample.
pub struct Field {
    pub name: String,
    pub bytes: u64,
    /// JPEG, JSON, text, a media type.
    pub kind: &'static str,
}

/// The image of a sample.
pub struct Image {
    /// None where it cannot be read.
    pub size: Option<(u32, u32)>,
    pub bytes: u64,
}

/// A sample in the gallery.
pub struct Exhibit {
    pub number: u64,
    pub key: String,
    pub caption: String,
    pub picture: Result<Picture, &'static str>,
    /// Names of its fields, their bytes, and what they hold in a line.
    pub fields: Vec<(String, u64, String)>,
}

/// A thumbnail as it stands in the page.
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub base64: String,
}

/// Finds out about a sample.
pub fn gather(job: &Job, maker: &Maker) -> Facts {
    let sample = &job.sample;
    let kinds: Vec<Kind> = sample.members.iter().map(Kind::of).collect();
    let fields = sample.members.iter().zip(&kinds).map(|(member, kind)| Field {
        name: member.field.clone(),
        bytes: member.data.len() as u64,
        kind: short(kind),
    });
    let drawn = maker.image(sample).and_then(|drawn| sample.members.iter().position(|m| std::ptr::eq(m, drawn)));
    let image = drawn.map(|at| Image {
        size: if let Kind::Image { size, .. } = kinds[at] { size } else { None },
        bytes: sample.members[at].data.len() as u64,
    });
    let caption_chars = maker.caption(sample).map(|caption| caption.chars().count() as u64);
    let chosen = job.place.map(|place| (place, exhibit(job, &kinds, maker)));
    Facts { key: sample.key.clone(), fields: fields.collect(), image, caption_chars, chosen }
}

fn short(kind: &Kind) -> &'static str {
    match kind {
        Kind::Image { format, .. } => format,
        Kind::Json => "JSON",
        Kind::Text => "text",
        Kind::Media(mime) | Kind::Binary(Some(mime)) => mime,
        Kind::Binary(None) => "binary",
    }
}

fn exhibit(job: &Job, kinds: &[Kind], maker: &Maker) -> Exhibit {
    let card = maker.card(&job.sample);
    let describe = |(member, kind): (&Member, &Kind)| {
        let held = match kind {
            Kind::Text | Kind::Json => line(&String::from_utf8_lossy(&member.data), HEAD),
            kind => kind.to_string(),
        };
        (member.field.clone(), member.data.len() as u64, held)
    };
    Exhibit {
        number: job.number,
        caption: card.short_caption(),
        fields: job.sample.members.iter().zip(kinds).map(describe).collect(),
        picture: card.picture.map(|picture| encode(&picture)),
        key: card.key,
    }
}

fn encode(picture: &RgbImage) -> Picture {
    let mut out = Cursor::new(Vec::new());
    // Writing to memory does not fail.
    _ = picture.write_with_encoder(JpegEncoder::new_with_quality(&mut out, JPEG_QUALITY));
    Picture { width: picture.width(), height: picture.height(), base64: STANDARD.encode(out.into_inner()) }
}
