//! AVIF: what its boxes say, and decoding its AV1 frames with rav1d.

#![cfg_attr(not(feature = "avif"), allow(dead_code, reason = "a build without the decoder only recognises the format"))]

mod boxes;
#[cfg(feature = "avif")]
mod frame;

use image::metadata::Orientation;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::avif::boxes::{Items, Reader};
use crate::tarresize::geometry::PixelSize;

#[cfg(feature = "avif")]
pub use frame::decode;

/// An image made of one AV1 frame or of a grid of them.
pub struct CodedImage {
    pub size: PixelSize,
    /// Items, row by row.
    pub tiles: Vec<u64>,
    pub columns: u32,
}

/// What the boxes of an AVIF say.
pub struct AvifLayout<'a> {
    items: Items<'a>,
    pub color: CodedImage,
    pub alpha: Option<CodedImage>,
    pub is_premultiplied: bool,
    pub orientation: Orientation,
    /// 2 for a file with an animation.
    pub frames: u64,
    /// The number of a matrix, and whether the range is full, if the file says so.
    pub matrix: Option<(u16, bool)>,
    pub icc: Option<Vec<u8>>,
    pub exif: Option<Vec<u8>>,
}

/// Whether a file is AVIF, by its brands.
pub fn is_avif(file: &[u8]) -> bool {
    brands(file).any(|brand| matches!(brand, b"avif" | b"avis"))
}

/// The brands of a file: its own and those it is compatible with.
fn brands(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = match file.first_chunk::<8>() {
        Some(&[a, b, c, d, b'f', b't', b'y', b'p']) => {
            let len = u32::from_be_bytes([a, b, c, d]).min(1 << 10) as usize;
            &file[8..len.clamp(8, file.len().max(8))]
        }
        _ => &[],
    };
    body.chunks_exact(4).enumerate().filter(|(i, _)| *i != 1).map(|(_, brand)| brand)
}

impl<'a> AvifLayout<'a> {
    /// Reads the boxes of a file.
    pub fn read(file: &'a [u8]) -> Result<Self, ImageFailure> {
        let items = Items::read(file)?;
        let color = coded_image(&items, items.primary)?;
        let alpha = items.referring(b"auxl", items.primary).find(|&id| is_alpha(&items, id));
        let is_premultiplied = alpha.is_some_and(|id| items.referred(b"prem", items.primary).any(|to| to == id));
        let alpha = alpha.map(|id| coded_image(&items, id)).transpose()?;
        if alpha.as_ref().is_some_and(|alpha| alpha.size != color.size) {
            return Err(ImageFailure::new(ImageFailureCode::Unsupported, "AVIF with alpha of another size"));
        }
        let exif = items.referring(b"cdsc", items.primary).find(|&id| items.kind(id) == Some(*b"Exif"));
        // Before the TIFF header is the number of bytes to skip up to it.
        let exif = exif.and_then(|id| items.data(id).ok()).and_then(|data| {
            let skipped = u32::from_be_bytes(*data.first_chunk::<4>()?) as usize;
            data.get(4usize.checked_add(skipped)?..).map(<[u8]>::to_vec)
        });
        Ok(AvifLayout {
            orientation: orientation(&items),
            frames: if brands(file).any(|brand| brand == b"avis") { 2 } else { 1 },
            matrix: matrix(&items),
            icc: profile(&items),
            items,
            color,
            alpha,
            is_premultiplied,
            exif,
        })
    }

    /// The memory that decoding needs besides the picture: planes of up to 16 bits, what the decoder keeps for each
    /// block, and the compressed data.
    pub fn decoding_bytes(&self) -> u64 {
        const FRAME: u64 = 24;
        let planes = if self.alpha.is_some() { 2 } else { 1 };
        self.color.size.area() * FRAME * planes + (16 << 20)
    }
}

fn is_alpha(items: &Items, id: u64) -> bool {
    const NAMES: [&[u8]; 2] = [b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", b"urn:mpeg:hevc:2015:auxid:1"];
    let name = items.property(id, b"auxC").and_then(|body| body.get(4..));
    name.is_some_and(|name| NAMES.iter().any(|known| name.starts_with(known)))
}

fn coded_image(items: &Items, id: u64) -> Result<CodedImage, ImageFailure> {
    let size = items.property(id, b"ispe").ok_or_else(|| ImageFailure::decode("AVIF without a size"))?;
    let mut reader = Reader { data: size };
    reader.version()?;
    let side = |number: u64| number as u32;
    let size = PixelSize::new(side(reader.number(4)?), side(reader.number(4)?));
    if size.area() == 0 {
        return Err(ImageFailure::decode("width or height is 0"));
    }
    match items.kind(id) {
        Some(kind) if kind == *b"av01" => Ok(CodedImage { size, tiles: vec![id], columns: 1 }),
        Some(kind) if kind == *b"grid" => grid(items, id, size),
        _ => Err(ImageFailure::new(ImageFailureCode::Unsupported, "HEIF whose primary item is not AV1")),
    }
}

fn grid(items: &Items, id: u64, size: PixelSize) -> Result<CodedImage, ImageFailure> {
    let data = items.data(id)?;
    let mut reader = Reader { data: &data };
    reader.number(2)?;
    let (rows, columns) = (reader.number(1)? + 1, reader.number(1)? + 1);
    let tiles: Vec<u64> = items.referred(b"dimg", id).collect();
    let are_frames = tiles.iter().all(|&tile| items.kind(tile) == Some(*b"av01"));
    if tiles.len() as u64 != rows * columns || !are_frames {
        return Err(ImageFailure::decode("AVIF grid with missing tiles"));
    }
    Ok(CodedImage { size, tiles, columns: columns as u32 })
}

/// The rotation and mirroring that the file asks for, in this order.
fn orientation(items: &Items) -> Orientation {
    let quarter_turns =
        items.property(items.primary, b"irot").and_then(|body| body.first()).map_or(0, |turns| turns & 3);
    let mirror = items.property(items.primary, b"imir").and_then(|body| body.first()).map(|axis| axis & 1);
    match (quarter_turns, mirror) {
        (0, None) => Orientation::NoTransforms,
        (1, None) => Orientation::Rotate270,
        (2, None) => Orientation::Rotate180,
        (3, None) => Orientation::Rotate90,
        (0, Some(0)) | (2, Some(1)) => Orientation::FlipVertical,
        (0, Some(_)) | (2, Some(_)) => Orientation::FlipHorizontal,
        (1, Some(0)) | (3, Some(1)) => Orientation::Rotate90FlipH,
        _ => Orientation::Rotate270FlipH,
    }
}

fn matrix(items: &Items) -> Option<(u16, bool)> {
    let mut colors = items.properties(items.primary).filter(|found| found.kind == *b"colr").map(|found| found.body);
    let body = colors.find_map(|body| body.strip_prefix(b"nclx"))?;
    Some((u16::from_be_bytes([*body.get(4)?, *body.get(5)?]), body.get(6)? & 0x80 != 0))
}

fn profile(items: &Items) -> Option<Vec<u8>> {
    let mut colors = items.properties(items.primary).filter(|found| found.kind == *b"colr").map(|found| found.body);
    colors.find_map(|body| body.strip_prefix(b"prof").or_else(|| body.strip_prefix(b"rICC"))).map(<[u8]>::to_vec)
}
