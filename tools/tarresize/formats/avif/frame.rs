//! Decodes the AV1 frames of an AVIF and converts them to RGB.

use re_rav1d::dav1d::{self, Decoder, PlanarImageComponent, Settings};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::avif::boxes::Reader;
use crate::tarresize::formats::avif::{AvifLayout, CodedImage};
use crate::tarresize::formats::header::MAX_PIXELS;
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::DecodedPicture;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};
use crate::tarresize::pixels::yuv::{self, Plane, YuvMatrix};

/// Decodes the primary image.
pub fn decode(layout: &AvifLayout) -> Result<DecodedPicture, ImageFailure> {
    let size = layout.color.size;
    let pixel_layout = if layout.alpha.is_some() { PixelLayout::Rgba } else { PixelLayout::Rgb };
    let mut picture = Picture::new(size, pixel_layout);
    decode_tiles(layout, &layout.color, |frame, at| draw_color(frame, layout.matrix, at, &mut picture))?;
    if let Some(alpha) = &layout.alpha {
        decode_tiles(layout, alpha, |frame, at| draw_alpha(frame, at, &mut picture))?;
    }
    if layout.is_premultiplied {
        picture = picture.unpremultiplied();
    }
    Ok(DecodedPicture { picture, damage: None })
}

/// The smallest side of a tile in a grid: the standard's, without which a small file could ask for many decoders.
const MIN_TILE: u32 = 64;

/// Decodes the tiles of an image one by one. All have the size of the first, and together they cover the image. That no
/// row or column of them lies outside of it, and that no two share their data, bounds the time by the size of the image.
fn decode_tiles(
    layout: &AvifLayout,
    image: &CodedImage,
    mut draw: impl FnMut(&dav1d::Picture, (u32, u32)),
) -> Result<(), ImageFailure> {
    let (mut tile_size, mut total_len) = (None, 0);
    for (i, &tile) in (0u32..).zip(&image.tiles) {
        let data = layout.items.data(tile)?;
        total_len += data.len();
        if total_len > layout.items.file.len() {
            return Err(ImageFailure::decode("AVIF tiles that share data"));
        }
        let frame = decode_frame(data, image.size)?;
        let size = PixelSize::new(frame.width(), frame.height());
        let expected = *tile_size.get_or_insert(size);
        let rows = (image.tiles.len() as u32).div_ceil(image.columns);
        let fits = tiles_cover(size.width, image.columns, image.size.width)
            && tiles_cover(size.height, rows, image.size.height);
        if size != expected || !fits {
            return Err(ImageFailure::decode("AV1 frames of another size than the AVIF declares"));
        }
        draw(&frame, (i % image.columns * size.width, i / image.columns * size.height));
    }
    Ok(())
}

/// Whether so many tiles of this side cover the whole, and fewer do not.
fn tiles_cover(side: u32, count: u32, whole: u32) -> bool {
    let (side, count, whole) = (u64::from(side), u64::from(count), u64::from(whole));
    side * count >= whole && side * (count - 1) < whole && (count == 1 || side >= u64::from(MIN_TILE))
}

/// The most frames that the data of an item may have: one for each spatial layer.
const MAX_LAYERS: usize = 4;

/// Counts the frames in AV1 data, shown or not.
fn coded_frames(data: &[u8]) -> usize {
    const FRAME_HEADER: u8 = 3;
    const FRAME: u8 = 6;
    let (mut reader, mut count) = (Reader { data }, 0);
    while let Ok(header) = reader.number(1) {
        count += usize::from(matches!(header as u8 >> 3 & 15, FRAME_HEADER | FRAME));
        let has_extension = header & 4 != 0;
        let has_size = header & 2 != 0;
        let skipped = reader.bytes(usize::from(has_extension)).is_ok() && has_size;
        let Some(len) = skipped.then(|| leb128(&mut reader)).flatten() else { break };
        if reader.bytes(len).is_err() {
            break;
        }
    }
    count
}

/// A number in groups of seven bits, the lowest first.
fn leb128(reader: &mut Reader) -> Option<usize> {
    let mut value = 0;
    for i in 0..8 {
        let byte = reader.number(1).ok()?;
        value |= (byte & 0x7f) << (i * 7);
        if byte & 0x80 == 0 {
            return usize::try_from(value).ok();
        }
    }
    None
}

/// Decodes one frame on this thread. Frames of more pixels than the image has are refused by the decoder, rounded up to
/// whole blocks.
fn decode_frame(data: Vec<u8>, size: PixelSize) -> Result<dav1d::Picture, ImageFailure> {
    let count = coded_frames(&data);
    if count > MAX_LAYERS {
        return Err(ImageFailure::new(ImageFailureCode::Bomb, format!("{count} AV1 frames for one image")));
    }
    let mut settings = Settings::new();
    settings.set_n_threads(1);
    settings.set_max_frame_delay(1);
    settings.set_all_layers(false);
    let block = |side: u32| u64::from(side.next_multiple_of(128));
    let limit = (block(size.width) * block(size.height)).min(MAX_PIXELS);
    settings.set_frame_size_limit(limit as u32);
    let mut decoder = Decoder::with_settings(&settings).map_err(from_av1)?;
    let mut sent = decoder.send_data(data, None, None, None);
    loop {
        match decoder.get_picture() {
            Ok(picture) => return Ok(picture),
            Err(err) if !err.is_again() => return Err(from_av1(err)),
            Err(_) if sent.is_ok() => return Err(ImageFailure::decode("AV1 data without a picture")),
            Err(_) => sent = decoder.send_pending_data(),
        }
        if let Err(err) = sent
            && !err.is_again()
        {
            return Err(from_av1(err));
        }
    }
}

fn from_av1(err: dav1d::Error) -> ImageFailure {
    match err {
        dav1d::Error::NotEnoughMemory => ImageFailure::new(ImageFailureCode::Memory, err),
        dav1d::Error::UnsupportedBitstream => ImageFailure::new(ImageFailureCode::Unsupported, err),
        _ => ImageFailure::decode(format!("AV1: {err}")),
    }
}

/// Luma samples per chroma sample; `None` for gray.
fn subsampling(frame: &dav1d::Picture) -> Option<(u32, u32)> {
    match frame.pixel_layout() {
        dav1d::PixelLayout::I400 => None,
        dav1d::PixelLayout::I420 => Some((2, 2)),
        dav1d::PixelLayout::I422 => Some((2, 1)),
        dav1d::PixelLayout::I444 => Some((1, 1)),
    }
}

/// The part of a picture that a tile at `at` covers.
fn covered(picture: &Picture, (left, top): (u32, u32), frame: &dav1d::Picture) -> (usize, usize) {
    let inside = |whole: u32, at: u32, side: u32| whole.saturating_sub(at).min(side) as usize;
    (inside(picture.size.width, left, frame.width()), inside(picture.size.height, top, frame.height()))
}

fn draw_color(frame: &dav1d::Picture, matrix: Option<(u16, bool)>, at: (u32, u32), picture: &mut Picture) {
    let bits = frame.bit_depth() as u32;
    let (number, is_full_range) = matrix
        .unwrap_or_else(|| (frame.matrix_coefficients() as u16, frame.color_range() == dav1d::pixel::YUVRange::Full));
    let ratio = subsampling(frame);
    // Without chroma, any matrix gives gray.
    let matrix = YuvMatrix::new(if ratio.is_none() { 6 } else { number }, is_full_range, bits);
    let size = PixelSize::new(frame.width(), frame.height());
    let planes = [PlanarImageComponent::Y, PlanarImageComponent::U, PlanarImageComponent::V];
    let planes = planes
        .map(|component| (ratio.is_some() || component == PlanarImageComponent::Y).then(|| frame.plane(component)));
    let plane = |i: usize| {
        let component = if i == 0 { PlanarImageComponent::Y } else { PlanarImageComponent::U };
        let stride = frame.stride(component) as usize;
        planes[i].as_ref().map(|data| Plane { data, stride, is_wide: bits > 8 })
    };
    let (columns, rows) = covered(picture, at, frame);
    let channels = picture.layout.channels();
    let stride = picture.size.width as usize * channels;
    let middle = vec![1 << (bits - 1); size.width as usize];
    let (mut luma, mut chroma) = (Vec::new(), [middle.clone(), middle]);
    for y in 0..rows {
        if let Some(plane) = plane(0) {
            plane.row(y, size.width as usize, &mut luma);
        }
        if let Some(ratio) = ratio {
            for (i, row) in chroma.iter_mut().enumerate() {
                if let Some(plane) = plane(i + 1) {
                    yuv::chroma_row(&plane, size, ratio, y, row);
                }
            }
        }
        let start = (at.1 as usize + y) * stride + at.0 as usize * channels;
        let out = picture.data[start..start + columns * channels].chunks_exact_mut(channels);
        for (x, pixel) in out.enumerate() {
            pixel[..3].copy_from_slice(&matrix.to_rgb([luma[x], chroma[0][x], chroma[1][x]]));
        }
    }
}

fn draw_alpha(frame: &dav1d::Picture, at: (u32, u32), picture: &mut Picture) {
    let bits = frame.bit_depth() as u32;
    let is_full_range = frame.color_range() == dav1d::pixel::YUVRange::Full;
    let matrix = YuvMatrix::new(6, is_full_range, bits);
    let middle = 1 << (bits - 1);
    let data = frame.plane(PlanarImageComponent::Y);
    let plane = Plane { data: &data, stride: frame.stride(PlanarImageComponent::Y) as usize, is_wide: bits > 8 };
    let (columns, rows) = covered(picture, at, frame);
    let stride = picture.size.width as usize * 4;
    let mut luma = Vec::new();
    for y in 0..rows {
        plane.row(y, columns, &mut luma);
        let start = (at.1 as usize + y) * stride + at.0 as usize * 4;
        let out = picture.data[start..start + columns * 4].chunks_exact_mut(4);
        out.zip(&luma).for_each(|(pixel, &value)| pixel[3] = matrix.to_rgb([value, middle, middle])[0]);
    }
}
