//! What an image is, before any pixel is decoded: format, size, orientation, metadata. Decompression bombs are rejected
//! here.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{ImageDecoder, ImageFormat, ImageReader, Limits};
use tarpipe::run::memory;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::tiff::layout::TiffLayout;
use crate::tarresize::formats::{avif, chunks};
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::markers::{self, Markers};

/// Images with more pixels are rejected as bombs: Pillow's limit, twice 89 million.
pub const MAX_PIXELS: u64 = 178_956_970;

/// Images with more frames are rejected as bombs, however small the frames are.
const MAX_FRAMES: u64 = 5_000;

/// The kinds of image that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Jpeg,
    Webp,
    Tiff,
    Avif,
    Jpeg2000,
    JpegXl,
    /// Decoded by the image crate.
    Other(ImageFormat),
}

impl ImageKind {
    /// Detects the kind from the content; the file extension does not matter.
    pub fn detect(bytes: &[u8]) -> Option<ImageKind> {
        if bytes.starts_with(&[0xff, 0xd8]) {
            return Some(ImageKind::Jpeg);
        }
        const TIFF: [&[u8]; 4] = [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"];
        const JPEG_2000: [&[u8]; 2] = [b"\0\0\0\x0cjP  \r\n\x87\n", &[0xff, 0x4f, 0xff, 0x51]];
        const JPEG_XL: [&[u8]; 2] = [b"\0\0\0\x0cJXL \r\n\x87\n", &[0xff, 0x0a]];
        let starts_with = |magic: &[&[u8]]| magic.iter().any(|magic| bytes.starts_with(magic));
        if starts_with(&TIFF) {
            return Some(ImageKind::Tiff);
        }
        if starts_with(&JPEG_2000) {
            return Some(ImageKind::Jpeg2000);
        }
        if starts_with(&JPEG_XL) {
            return Some(ImageKind::JpegXl);
        }
        if avif::is_avif(bytes) {
            return Some(ImageKind::Avif);
        }
        match image::guess_format(bytes).ok()? {
            ImageFormat::WebP => Some(ImageKind::Webp),
            format @ (ImageFormat::Png | ImageFormat::Gif | ImageFormat::Bmp | ImageFormat::Pnm) => {
                Some(ImageKind::Other(format))
            }
            _ => None,
        }
    }
}

/// Everything known before decoding.
#[derive(Debug)]
pub struct ImageHeader {
    pub kind: ImageKind,
    /// As stored, before orientation.
    pub size: PixelSize,
    pub orientation: Orientation,
    pub frames: u64,
    /// The memory that the decoder needs besides the picture; that of a JPEG depends on how it is decoded.
    pub decoder_bytes: u64,
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
    /// Whether `--strip` would remove anything.
    pub has_metadata: bool,
    /// What the markers of a JPEG say.
    pub jpeg: Option<Markers>,
}

/// Reads the header of an image and rejects bombs.
pub fn read(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let unknown = || ImageFailure::new(ImageFailureCode::Unsupported, "unknown or unsupported image format");
    let mut header = match ImageKind::detect(bytes).ok_or_else(unknown)? {
        ImageKind::Jpeg => jpeg_header(bytes)?,
        ImageKind::Webp => webp_header(bytes)?,
        ImageKind::Tiff => tiff_header(bytes)?,
        ImageKind::Avif => avif_header(bytes)?,
        ImageKind::Jpeg2000 => jpeg2000_header(bytes)?,
        ImageKind::JpegXl => jpegxl_header(bytes)?,
        ImageKind::Other(format) => other_header(bytes, format)?,
    };
    header.has_metadata |= header.exif.is_some() || header.icc.is_some();
    refuse_bombs(&header)?;
    Ok(header)
}

fn refuse_bombs(header: &ImageHeader) -> Result<(), ImageFailure> {
    let PixelSize { width, height } = header.size;
    if header.size.area() > MAX_PIXELS {
        return Err(ImageFailure::new(ImageFailureCode::Bomb, format!("{width}x{height} pixels")));
    }
    if header.frames > MAX_FRAMES {
        return Err(ImageFailure::new(ImageFailureCode::Bomb, format!("{} frames", header.frames)));
    }
    Ok(())
}

fn jpeg_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let mut markers = markers::read(bytes)?;
    let (exif, icc) = (markers.exif.take(), markers.icc.take());
    let orientation = exif.as_deref().and_then(Orientation::from_exif_chunk).unwrap_or(Orientation::NoTransforms);
    let (size, has_metadata) = (markers.size, markers.has_metadata);
    let jpeg = Some(markers);
    Ok(ImageHeader {
        kind: ImageKind::Jpeg,
        size,
        orientation,
        frames: 1,
        decoder_bytes: 0,
        exif,
        icc,
        has_metadata,
        jpeg,
    })
}

fn webp_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let chunks = chunks::read_webp(bytes);
    let features = webp::BitstreamFeatures::new(bytes);
    let Some(features) = features.filter(|features| features.width() * features.height() > 0) else {
        let detail = "missing or invalid WebP header";
        return Err(if chunks.is_complete { ImageFailure::decode(detail) } else { ImageFailure::truncated(detail) });
    };
    let size = PixelSize::new(features.width(), features.height());
    let orientation = chunks.exif.as_deref().and_then(Orientation::from_exif_chunk);
    let (exif, icc, has_metadata) = (chunks.exif, chunks.icc, chunks.xmp);
    // An animation with a single frame still needs the animation decoder.
    let frames = chunks.frames.max(if features.has_animation() { 2 } else { 1 });
    let orientation = orientation.unwrap_or(Orientation::NoTransforms);
    Ok(ImageHeader {
        kind: ImageKind::Webp,
        size,
        orientation,
        frames,
        // libwebp holds all pixels as ARGB and a copy of the result; for an animation also the canvas and one frame.
        decoder_bytes: 16 * size.area(),
        exif,
        icc,
        has_metadata,
        jpeg: None,
    })
}

fn other_header(bytes: &[u8], format: ImageFormat) -> Result<ImageHeader, ImageFailure> {
    let mut decoder = open_decoder(bytes, format)?;
    let (width, height) = decoder.dimensions();
    if width == 0 || height == 0 {
        return Err(ImageFailure::decode("width or height is 0"));
    }
    let icc = decoder.icc_profile().unwrap_or(None);
    let exif = decoder.exif_metadata().unwrap_or(None);
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let frames = match format {
        ImageFormat::Gif => chunks::gif_frames(bytes),
        ImageFormat::Png => chunks::png_frames(bytes),
        _ => 1,
    };
    let (kind, size, has_metadata) = (ImageKind::Other(format), PixelSize::new(width, height), false);
    // All samples in their own depth, and the same again inside of all decoders except that of PNG.
    let raw = size.area() * u64::from(decoder.color_type().bytes_per_pixel());
    let decoder_bytes = if format == ImageFormat::Png { raw } else { 2 * raw };
    Ok(ImageHeader { kind, size, orientation, frames, decoder_bytes, exif, icc, has_metadata, jpeg: None })
}

fn tiff_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let layout = TiffLayout::read(bytes)?;
    Ok(ImageHeader {
        kind: ImageKind::Tiff,
        size: layout.size,
        orientation: layout.orientation,
        frames: 1,
        decoder_bytes: layout.decoding_bytes(),
        exif: None,
        icc: layout.icc,
        has_metadata: false,
        jpeg: None,
    })
}

#[cfg(feature = "avif")]
fn avif_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let layout = avif::AvifLayout::read(bytes)?;
    Ok(ImageHeader {
        kind: ImageKind::Avif,
        size: layout.color.size,
        orientation: layout.orientation,
        frames: layout.frames,
        decoder_bytes: layout.decoding_bytes(),
        exif: layout.exif,
        icc: layout.icc,
        has_metadata: false,
        jpeg: None,
    })
}

#[cfg(not(feature = "avif"))]
fn avif_header(_: &[u8]) -> Result<ImageHeader, ImageFailure> {
    Err(ImageFailure::new(ImageFailureCode::Unsupported, "AVIF; this tarresize was built without it"))
}

#[cfg(feature = "jpeg2000")]
fn jpeg2000_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let opened = crate::tarresize::formats::jpeg2000::Jpeg2000::open(bytes)?;
    Ok(ImageHeader {
        kind: ImageKind::Jpeg2000,
        size: opened.size,
        orientation: Orientation::NoTransforms,
        frames: 1,
        decoder_bytes: opened.decoding_bytes(),
        exif: None,
        icc: opened.icc(),
        has_metadata: false,
        jpeg: None,
    })
}

#[cfg(not(feature = "jpeg2000"))]
fn jpeg2000_header(_: &[u8]) -> Result<ImageHeader, ImageFailure> {
    Err(ImageFailure::new(ImageFailureCode::Unsupported, "JPEG 2000; this tarresize was built without it"))
}

#[cfg(feature = "jpegxl")]
fn jpegxl_header(bytes: &[u8]) -> Result<ImageHeader, ImageFailure> {
    let header = crate::tarresize::formats::jpegxl::JxlHeader::read(bytes)?;
    Ok(ImageHeader {
        kind: ImageKind::JpegXl,
        size: header.size,
        orientation: Orientation::NoTransforms,
        frames: header.frames,
        decoder_bytes: header.decoding_bytes(),
        exif: None,
        icc: header.icc,
        has_metadata: false,
        jpeg: None,
    })
}

#[cfg(not(feature = "jpegxl"))]
fn jpegxl_header(_: &[u8]) -> Result<ImageHeader, ImageFailure> {
    Err(ImageFailure::new(ImageFailureCode::Unsupported, "JPEG XL; this tarresize was built without it"))
}

/// Opens a decoder, which reads the header but no pixels and never allocates more than the largest accepted image
/// needs.
pub fn open_decoder(bytes: &[u8], format: ImageFormat) -> Result<impl ImageDecoder, ImageFailure> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    let limit = if format == ImageFormat::Png { memory::png_overhead(bytes) } else { u64::MAX };
    limits.max_alloc = Some(limit.min(MAX_PIXELS * 8));
    reader.limits(limits);
    reader.into_decoder().map_err(|err| from_image_error(&err))
}

/// Converts an error of the image crate; an early end of the data is hidden among the error's sources.
pub fn from_image_error(err: &image::ImageError) -> ImageFailure {
    if let image::ImageError::Limits(_) = err {
        return ImageFailure::new(ImageFailureCode::Bomb, err);
    }
    if let image::ImageError::Unsupported(_) = err {
        return ImageFailure::new(ImageFailureCode::Unsupported, err);
    }
    // The I/O error itself is not among the sources of the variant that wraps it.
    let is_end = |io: &std::io::Error| io.kind() == std::io::ErrorKind::UnexpectedEof;
    let mut ends_early = matches!(err, image::ImageError::IoError(io) if is_end(io));
    let mut source = std::error::Error::source(err);
    while let Some(inner) = source {
        ends_early |= inner.downcast_ref().is_some_and(is_end);
        source = inner.source();
    }
    if ends_early {
        return ImageFailure::truncated("unexpected end of data");
    }
    ImageFailure::decode(err)
}
