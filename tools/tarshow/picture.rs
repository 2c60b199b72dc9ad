//! Sizes and thumbnails of images, under limits: a picture that lies about its size costs its
//! place, not the run, and all that are decoded at the same time share one budget of memory.

use std::io::Cursor;
use std::sync::Arc;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, Rgb, RgbImage};
use tarpipe::run::memory::{self, Budget, Held};
use tarpipe::run::panics::guarded;

/// More pixels than this are not decoded for a thumbnail: Pillow's line, too.
const MAX_PIXELS: u64 = 89_478_485;

/// Bytes held for each byte of decoded pixels: decoders keep up to twice as much (the coefficients of a progressive
/// JPEG, the strips of a TIFF), and turning a picture upright makes a copy.
const COPIES: u64 = 4;

/// Width and height as the image is seen, its orientation applied.
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

/// The image no larger than `width` x `height`, upright, on white where it is transparent. The error is
/// a few words for the place where the picture would be.
pub fn thumbnail(data: &[u8], width: u32, height: u32, budget: &Arc<Budget>) -> Result<RgbImage, &'static str> {
    let draw = || {
        let (image, _held) = decode(data, budget)?;
        let fits = image.width() <= width && image.height() <= height;
        let small = if fits { image } else { in_8_bits(image).thumbnail(width, height) };
        Ok(on_white(&small))
    };
    guarded(draw).unwrap_or(Err("unreadable"))
}

/// The picture, upright, and the memory that it takes.
fn decode(data: &[u8], budget: &Arc<Budget>) -> Result<(DynamicImage, Held), &'static str> {
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

/// A decoder that has read the header and no pixel.
fn decoder(data: &[u8]) -> Result<impl ImageDecoder, &'static str> {
    let mut reader = ImageReader::new(Cursor::new(data)).with_guessed_format().map_err(|_| "unreadable")?;
    let mut limits = Limits::no_limits();
    let most = if reader.format() == Some(ImageFormat::Png) { memory::png_overhead(data) } else { u64::MAX };
    limits.max_alloc = Some(most.min(MAX_PIXELS * 8));
    reader.limits(limits);
    reader.into_decoder().map_err(|err| match err {
        image::ImageError::Unsupported(_) => "no decoder for it",
        image::ImageError::Limits(_) => "too large to draw",
        _ => "unreadable",
    })
}

/// Sums of wider samples overflow in image's thumbnails.
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
