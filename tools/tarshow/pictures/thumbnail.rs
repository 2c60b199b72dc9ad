//! Image sizes and thumbnails, under limits: an image with a wrong size in its header fails alone, and all images
//! decoded at the same time share one memory budget.

use std::io::Cursor;
use std::sync::Arc;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use tarpipe::run::memory::{self, MemoryBudget, MemoryShare};
use tarpipe::run::panics::catch;

/// Larger images are not decoded; this is also Pillow's limit.
const MAX_PIXELS: u64 = 89_478_485;

/// Bytes reserved per byte of decoded pixels: decoders need up to twice as much (the coefficients of a progressive
/// JPEG, the strips of a TIFF), and rotation makes a copy.
const COPIES: u64 = 4;

/// Width and height as displayed, after orientation.
pub fn size(data: &[u8]) -> Option<(u32, u32)> {
    let mut decoder = decoder(data).ok()?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return None;
    }
    let turned = matches!(
        decoder.orientation().unwrap_or(Orientation::NoTransforms),
        Orientation::Rotate90 | Orientation::Rotate270 | Orientation::Rotate90FlipH | Orientation::Rotate270FlipH
    );
    Some(if turned { (height, width) } else { (width, height) })
}

/// Decodes an image and scales it to fit `width` x `height`, oriented, on white if it is transparent. The error is a
/// short text to show instead of the picture.
pub fn thumbnail(data: &[u8], width: u32, height: u32, budget: &Arc<MemoryBudget>) -> Result<RgbImage, &'static str> {
    let draw = || {
        let (image, _held) = decode(data, budget)?;
        let fits = image.width() <= width && image.height() <= height;
        let small = if fits { image } else { in_8_bits(image).thumbnail(width, height) };
        Ok(on_white(&small))
    };
    catch(draw).unwrap_or(Err("unreadable"))
}

/// Decodes and orients an image; also returns the memory it holds.
fn decode(data: &[u8], budget: &Arc<MemoryBudget>) -> Result<(DynamicImage, MemoryShare), &'static str> {
    let mut decoder = decoder(data)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    let needed = decoder.total_bytes().saturating_mul(COPIES);
    if pixels > MAX_PIXELS || needed > budget.limit() {
        return Err("too large to draw");
    }
    let held = budget.take(needed);
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(|_| "unreadable")?;
    if image.width() == 0 || image.height() == 0 {
        return Err("unreadable");
    }
    image.apply_orientation(orientation);
    Ok((image, held))
}

/// Opens a decoder, which reads the header but no pixels.
fn decoder(data: &[u8]) -> Result<impl ImageDecoder, &'static str> {
    let mut reader = ImageReader::new(Cursor::new(data)).with_guessed_format().map_err(|_| "unreadable")?;
    let mut limits = Limits::no_limits();
    let most = if reader.format() == Some(ImageFormat::Png) { memory::png_overhead(data) } else { u64::MAX };
    limits.max_alloc = Some(most.min(MAX_PIXELS * 8));
    reader.limits(limits);
    reader.into_decoder().map_err(|err| match err {
        image::ImageError::Unsupported(_) => "unsupported format",
        image::ImageError::Limits(_) => "too large to draw",
        _ => "unreadable",
    })
}

/// Converts to 8 bits per channel: `thumbnail` of the image crate overflows with more.
fn in_8_bits(image: DynamicImage) -> DynamicImage {
    let color = image.color();
    match color.bytes_per_pixel() == color.channel_count() {
        true => image,
        false if color.has_alpha() => image.to_rgba8().into(),
        false => image.to_rgb8().into(),
    }
}

fn on_white(image: &DynamicImage) -> RgbImage {
    if !image.color().has_alpha() {
        return image.to_rgb8();
    }
    let rgba = image.to_rgba8();
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [red, green, blue, alpha] = rgba.get_pixel(x, y).0.map(u32::from);
        let over = |color: u32| ((color * alpha + 255 * (255 - alpha)) / 255) as u8;
        Rgb([over(red), over(green), over(blue)])
    })
}
