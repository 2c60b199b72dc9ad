//! What an image is, known from its first bytes and before any pixel: kind, size, orientation, metadata.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ImageDecoder, ImageFormat, ImageReader, Limits};
use tarpipe::run::memory;

use crate::failure::{Code, Failure};
use crate::frames;
use crate::markers::{self, Markers};
use crate::size::Size;

/// More pixels than this in one image are a bomb, as Pillow has it: 2 x 89 million.
pub const MAX_PIXELS: u64 = 178_956_970;

/// More frames than this are a bomb, however small they are.
const MAX_FRAMES: u64 = 5_000;

/// The kinds of image that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Jpeg,
    Webp,
    Other(ImageFormat),
}

impl Kind {
    /// The kind that the content shows; extensions are not asked.
    pub fn of(bytes: &[u8]) -> Option<Kind> {
        if bytes.starts_with(&[0xff, 0xd8]) {
            return Some(Kind::Jpeg);
        }
        match image::guess_format(bytes).ok()? {
            ImageFormat::WebP => Some(Kind::Webp),
            format
            @ (ImageFormat::Png | ImageFormat::Gif | ImageFormat::Bmp | ImageFormat::Tiff | ImageFormat::Pnm) => {
                Some(Kind::Other(format))
            }
            _ => None,
        }
    }
}

/// Everything known before decoding.
#[derive(Debug)]
pub struct Head {
    pub kind: Kind,
    /// As stored, before orientation.
    pub size: Size,
    pub orientation: Orientation,
    pub frames: u64,
    /// Bytes of a pixel as its decoder gives it, before it has 8 bits a channel.
    pub pixel_bytes: u64,
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
    /// Whether there is anything that stripping would take away.
    pub has_metadata: bool,
    /// For a JPEG, the rest of what its markers say.
    pub jpeg: Option<Markers>,
}

/// Reads the head of an image and refuses bombs.
pub fn read(bytes: &[u8]) -> Result<Head, Failure> {
    let unknown = || Failure::new(Code::Unsupported, "no image format that is read here");
    let mut head = match Kind::of(bytes).ok_or_else(unknown)? {
        Kind::Jpeg => jpeg(bytes)?,
        Kind::Webp => webp(bytes)?,
        Kind::Other(format) => other(bytes, format)?,
    };
    head.has_metadata |= head.exif.is_some() || head.icc.is_some();
    refuse_bombs(&head)?;
    Ok(head)
}

fn refuse_bombs(head: &Head) -> Result<(), Failure> {
    let Size { width, height } = head.size;
    if head.size.area() > MAX_PIXELS {
        return Err(Failure::new(Code::Bomb, format!("{width}x{height} pixels")));
    }
    if head.frames > MAX_FRAMES {
        return Err(Failure::new(Code::Bomb, format!("{} frames", head.frames)));
    }
    Ok(())
}

fn jpeg(bytes: &[u8]) -> Result<Head, Failure> {
    let mut markers = markers::read(bytes)?;
    let (exif, icc) = (markers.exif.take(), markers.icc.take());
    let orientation = exif.as_deref().and_then(Orientation::from_exif_chunk).unwrap_or(Orientation::NoTransforms);
    let (size, has_metadata) = (markers.size, markers.has_metadata);
    let jpeg = Some(markers);
    Ok(Head { kind: Kind::Jpeg, size, orientation, frames: 1, pixel_bytes: 4, exif, icc, has_metadata, jpeg })
}

fn webp(bytes: &[u8]) -> Result<Head, Failure> {
    let chunks = frames::webp(bytes);
    let features = webp::BitstreamFeatures::new(bytes);
    let Some(features) = features.filter(|features| features.width() * features.height() > 0) else {
        let detail = "no WebP header";
        return Err(if chunks.whole { Failure::decode(detail) } else { Failure::truncated(detail) });
    };
    let size = Size::new(features.width(), features.height());
    let orientation = chunks.exif.as_deref().and_then(Orientation::from_exif_chunk);
    let (exif, icc, has_metadata) = (chunks.exif, chunks.icc, chunks.xmp);
    // An animation of one frame is still one: only a decoder of animations can read it.
    let frames = chunks.frames.max(if features.has_animation() { 2 } else { 1 });
    let orientation = orientation.unwrap_or(Orientation::NoTransforms);
    Ok(Head { kind: Kind::Webp, size, orientation, frames, pixel_bytes: 4, exif, icc, has_metadata, jpeg: None })
}

fn other(bytes: &[u8], format: ImageFormat) -> Result<Head, Failure> {
    let mut decoder = decoder(bytes, format)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(Failure::decode("a size of 0"));
    }
    let icc = decoder.icc_profile().unwrap_or(None);
    let exif = decoder.exif_metadata().unwrap_or(None);
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let frames = match format {
        ImageFormat::Gif => frames::gif(bytes),
        ImageFormat::Png => frames::png(bytes),
        _ => 1,
    };
    let (kind, size, has_metadata) = (Kind::Other(format), Size::new(width, height), false);
    let pixel_bytes = decoder.color_type().bytes_per_pixel().into();
    Ok(Head { kind, size, orientation, frames, pixel_bytes, exif, icc, has_metadata, jpeg: None })
}

/// A decoder that has read the header and no pixel, and never allocates beyond what the largest image needs.
pub fn decoder(bytes: &[u8], format: ImageFormat) -> Result<impl ImageDecoder, Failure> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    let most = if format == ImageFormat::Png { memory::png_overhead(bytes) } else { u64::MAX };
    limits.max_alloc = Some(most.min(MAX_PIXELS * 8));
    reader.limits(limits);
    reader.into_decoder().map_err(|err| from_image_error(&err))
}

/// The failure that an error of the image crate stands for: the end of the bytes hides in its sources.
pub fn from_image_error(err: &image::ImageError) -> Failure {
    if let image::ImageError::Limits(_) = err {
        return Failure::new(Code::Bomb, err);
    }
    if let image::ImageError::Unsupported(_) = err {
        return Failure::new(Code::Unsupported, err);
    }
    // An I/O error does not show up among the sources of the error that wraps it.
    let ended = |io: &std::io::Error| io.kind() == std::io::ErrorKind::UnexpectedEof;
    let mut cut = matches!(err, image::ImageError::IoError(io) if ended(io));
    let mut source = std::error::Error::source(err);
    while let Some(inner) = source {
        cut |= inner.downcast_ref().is_some_and(ended);
        source = inner.source();
    }
    if cut {
        return Failure::truncated("the data ends early");
    }
    Failure::decode(err)
}
