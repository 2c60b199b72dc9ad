//! The JPEG codec on libjpeg-turbo: SIMD, YUV planes in and out, scaling while decoding.
//!
//! Each image gets its own decoder and encoder. After a failure a decoder is still in the middle of its image, and even
//! after a success it keeps the Huffman and quantisation tables, which a following JPEG without tables would silently
//! use. A new one costs about 15 microseconds.

use std::borrow::Cow;

use turbojpeg::{Compressor, DecompressHeader, Decompressor, Image, PixelFormat, ScalingFactor, Subsamp, YuvImage};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::markers::{self, Markers};
use crate::tarresize::jpeg::planes::YuvPlanes;
use crate::tarresize::jpeg::{DecodedPicture, JpegSettings, Subsampling, pixel_layout, uninverted};
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// A progressive JPEG with more scans takes too long to decode.
const MAX_SCANS: u32 = 200;

/// Warnings that leave every pixel correct.
const HARMLESS_WARNINGS: [&str; 3] =
    ["extraneous bytes before marker", "Unknown Adobe color transform", "Warning: unknown JFIF revision"];

/// Whether this codec can decode to planes and scale while decoding.
pub const HAS_PLANES: bool = true;

/// Decodes to planes at 1/`shrink` of the size. Returns whether the subsampling is supported, and any damage.
pub fn decode_planes(
    bytes: &[u8],
    shrink: u32,
    planes: &mut YuvPlanes,
) -> Result<(bool, Option<ImageFailure>), ImageFailure> {
    let OpenedJpeg { mut decoder, bytes, header } = open(bytes)?;
    let ratio = match header.subsamp {
        Subsamp::Unknown => return Ok((false, None)),
        Subsamp::Gray => None,
        other => Some((other.width() as u32, other.height() as u32)),
    };
    let factor = set_scale(&mut decoder, shrink)?;
    let (width, height) = (factor.scale(header.width), factor.scale(header.height));
    planes.reset(PixelSize::new(width as u32, height as u32), ratio);
    let image = YuvImage { pixels: planes.data.as_mut_slice(), width, align: 1, height, subsamp: header.subsamp };
    let damage = classify(decoder.decompress_to_yuv(&bytes, image))?;
    Ok((true, damage))
}

/// Decodes to pixels at 1/`shrink` of the size.
pub fn decode_pixels(bytes: &[u8], markers: &Markers, shrink: u32) -> Result<DecodedPicture, ImageFailure> {
    let OpenedJpeg { mut decoder, bytes, header } = open(bytes)?;
    let factor = set_scale(&mut decoder, shrink)?;
    let (width, height) = (factor.scale(header.width), factor.scale(header.height));
    let mut picture = Picture::new(PixelSize::new(width as u32, height as u32), pixel_layout(markers.color));
    let format = pixel_format(picture.layout)?;
    let image = Image { pixels: picture.data.as_mut_slice(), width, pitch: width * format.size(), height, format };
    let damage = classify(decoder.decompress(&bytes, image))?;
    Ok(DecodedPicture { picture: uninverted(picture, markers.color), damage })
}

/// Encodes planes.
pub fn encode_planes(planes: &YuvPlanes, settings: &JpegSettings) -> Result<Vec<u8>, ImageFailure> {
    let subsamp = match planes.ratio {
        None => Subsamp::Gray,
        Some((1, 1)) => Subsamp::None,
        Some(_) => Subsamp::Sub2x2,
    };
    let (width, height) = (planes.width as usize, planes.height as usize);
    let image = YuvImage { pixels: planes.data.as_slice(), width, align: 1, height, subsamp };
    new_encoder(settings)?.compress_yuv_to_vec(image).map_err(unencodable)
}

/// Encodes gray or RGB pixels.
pub fn encode_pixels(picture: &Picture, settings: &JpegSettings) -> Result<Vec<u8>, ImageFailure> {
    let format = pixel_format(picture.layout)?;
    let subsamp = match settings.subsampling {
        _ if picture.layout == PixelLayout::Gray => Subsamp::Gray,
        Subsampling::Half => Subsamp::Sub2x2,
        Subsampling::Full => Subsamp::None,
    };
    let mut encoder = new_encoder(settings)?;
    encoder.set_subsamp(subsamp).map_err(unencodable)?;
    let (width, height) = (picture.size.width as usize, picture.size.height as usize);
    let image = Image { pixels: picture.data.as_slice(), width, pitch: width * format.size(), height, format };
    encoder.compress_to_vec(image).map_err(unencodable)
}

/// A decoder that has read the header.
struct OpenedJpeg<'a> {
    decoder: Decompressor,
    /// The data to decode.
    bytes: Cow<'a, [u8]>,
    header: DecompressHeader,
}

/// Opens a JPEG. The library rejects garbage in the header, so a second attempt removes it.
fn open(bytes: &[u8]) -> Result<OpenedJpeg<'_>, ImageFailure> {
    let mut first = new_decoder()?;
    if let Ok(header) = first.read_header(bytes) {
        return Ok(OpenedJpeg { decoder: first, bytes: Cow::Borrowed(bytes), header });
    }
    let clean = markers::without_garbage(bytes);
    let mut second = new_decoder()?;
    let header = second.read_header(&clean).map_err(ImageFailure::decode)?;
    Ok(OpenedJpeg { decoder: second, bytes: Cow::Owned(clean), header })
}

fn new_decoder() -> Result<Decompressor, ImageFailure> {
    let mut decoder = Decompressor::new().map_err(|err| ImageFailure::new(ImageFailureCode::Memory, err))?;
    decoder.set_scan_limit(MAX_SCANS).map_err(ImageFailure::decode)?;
    Ok(decoder)
}

fn set_scale(decoder: &mut Decompressor, shrink: u32) -> Result<ScalingFactor, ImageFailure> {
    let factor = ScalingFactor::new(1, shrink as usize);
    decoder.set_scaling_factor(factor).map_err(ImageFailure::decode)?;
    Ok(factor)
}

fn new_encoder(settings: &JpegSettings) -> Result<Compressor, ImageFailure> {
    let mut encoder = Compressor::new().map_err(|err| ImageFailure::new(ImageFailureCode::Memory, err))?;
    encoder.set_quality(i32::from(settings.quality.max(1))).map_err(unencodable)?;
    encoder.set_progressive(settings.progressive).map_err(unencodable)?;
    Ok(encoder)
}

fn pixel_format(layout: PixelLayout) -> Result<PixelFormat, ImageFailure> {
    match layout {
        PixelLayout::Gray => Ok(PixelFormat::GRAY),
        PixelLayout::Rgb => Ok(PixelFormat::RGB),
        PixelLayout::Cmyk => Ok(PixelFormat::CMYK),
        PixelLayout::GrayAlpha | PixelLayout::Rgba => {
            Err(ImageFailure::new(ImageFailureCode::Unsupported, "JPEG does not support transparency"))
        }
    }
}

fn unencodable(err: turbojpeg::Error) -> ImageFailure {
    ImageFailure::new(ImageFailureCode::Unsupported, err)
}

/// Tells success, damage and failure apart. The library reports warnings as errors; only the text differs.
fn classify(result: turbojpeg::Result<()>) -> Result<Option<ImageFailure>, ImageFailure> {
    let Err(err) = result else { return Ok(None) };
    let text = err.to_string();
    if HARMLESS_WARNINGS.iter().any(|harmless| text.contains(harmless)) {
        return Ok(None);
    }
    if text.contains("Premature end of JPEG file") {
        return Ok(Some(ImageFailure::truncated("unexpected end of data")));
    }
    if text.contains("Corrupt JPEG data") {
        return Ok(Some(ImageFailure::decode(text)));
    }
    let bomb = text.contains("more than") && text.contains("scans");
    Err(ImageFailure::new(if bomb { ImageFailureCode::Bomb } else { ImageFailureCode::Decode }, text))
}
