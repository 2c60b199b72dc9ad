//! Sizes and thumbnails of images, under limits: a picture that lies about its size costs its
//! place, not the run.

use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Rgb, RgbImage};
use tarpipe::guard::guarded;

/// More pixels than this are not decoded for a thumbnail: Pillow's line, too.
const MAX_PIXELS: u64 = 89_478_485;

/// Images of more pixels are decoded one at a time: on many cores they would fill the memory.
const LARGE: u64 = 16_000_000;

static ONE_LARGE: Mutex<()> = Mutex::new(());

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
pub fn thumbnail(data: &[u8], width: u32, height: u32) -> Result<RgbImage, &'static str> {
    guarded(|| decode(data)).unwrap_or(Err("unreadable")).map(|image| {
        let fits = image.width() <= width && image.height() <= height;
        let small = if fits { image } else { image.thumbnail(width, height) };
        on_white(&small)
    })
}

fn decode(data: &[u8]) -> Result<DynamicImage, &'static str> {
    let mut decoder = decoder(data)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS {
        return Err("too large to draw");
    }
    let _turn = (pixels > LARGE).then(|| ONE_LARGE.lock().unwrap_or_else(PoisonError::into_inner));
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let mut image = DynamicImage::from_decoder(decoder).map_err(|_| "unreadable")?;
    if image.width() == 0 || image.height() == 0 {
        return Err("unreadable");
    }
    image.apply_orientation(orientation);
    Ok(image)
}

/// A decoder that has read the header and no pixel.
fn decoder(data: &[u8]) -> Result<impl ImageDecoder, &'static str> {
    let mut reader = ImageReader::new(Cursor::new(data)).with_guessed_format().map_err(|_| "unreadable")?;
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_PIXELS * 8);
    reader.limits(limits);
    reader.into_decoder().map_err(|err| match err {
        image::ImageError::Unsupported(_) => "no decoder for it",
        image::ImageError::Limits(_) => "too large to draw",
        _ => "unreadable",
    })
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
