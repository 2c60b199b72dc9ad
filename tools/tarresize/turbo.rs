//! The JPEG codec on libjpeg-turbo: SIMD, planes in and out, scaling while decoding.
//!
//! Every image gets a decoder and an encoder of its own. A decoder that has failed stays in the middle of its image, and
//! one that has not still keeps the Huffman and quantisation tables, which the next JPEG would use if it had none. A new
//! one costs about 15 microseconds.

use std::borrow::Cow;

use turbojpeg::{Compressor, DecompressHeader, Decompressor, Image, PixelFormat, ScalingFactor, Subsamp, YuvImage};

use crate::failure::{Code, Failure};
use crate::jpeg::{Decoded, Planes, Settings, Subsampling, layout, upright};
use crate::markers::{self, Markers};
use crate::picture::{Layout, Picture};
use crate::size::Size;

/// Scans beyond this make a progressive JPEG a bomb of time.
const MAX_SCANS: u32 = 200;

/// Warnings after which every pixel is still right.
const HARMLESS: [&str; 3] =
    ["extraneous bytes before marker", "Unknown Adobe color transform", "Warning: unknown JFIF revision"];

/// Whether JPEGs can be decoded to planes, and scaled on the way.
pub const HAS_PLANES: bool = true;

/// Decodes to planes at 1/`shrink` of the size, and says what was wrong with the data. False where the
/// subsampling is none that planes can have.
pub fn planes(bytes: &[u8], shrink: u32, planes: &mut Planes) -> Result<(bool, Option<Failure>), Failure> {
    let Opened { mut decoder, bytes, header } = open(bytes)?;
    let ratio = match header.subsamp {
        Subsamp::Unknown => return Ok((false, None)),
        Subsamp::Gray => None,
        other => Some((other.width() as u32, other.height() as u32)),
    };
    let factor = scale(&mut decoder, shrink)?;
    let (width, height) = (factor.scale(header.width), factor.scale(header.height));
    planes.reset(Size::new(width as u32, height as u32), ratio);
    let image = YuvImage { pixels: planes.data.as_mut_slice(), width, align: 1, height, subsamp: header.subsamp };
    let damage = damage(decoder.decompress_to_yuv(&bytes, image))?;
    Ok((true, damage))
}

/// Decodes to pixels at 1/`shrink` of the size.
pub fn pixels(bytes: &[u8], markers: &Markers, shrink: u32) -> Result<Decoded, Failure> {
    let Opened { mut decoder, bytes, header } = open(bytes)?;
    let factor = scale(&mut decoder, shrink)?;
    let (width, height) = (factor.scale(header.width), factor.scale(header.height));
    let mut picture = Picture::new(Size::new(width as u32, height as u32), layout(markers.color));
    let format = pixel_format(picture.layout)?;
    let image = Image { pixels: picture.data.as_mut_slice(), width, pitch: width * format.size(), height, format };
    let damage = damage(decoder.decompress(&bytes, image))?;
    Ok(Decoded { picture: upright(picture, markers.color), damage })
}

/// Encodes planes as they are.
pub fn encode_planes(planes: &Planes, settings: &Settings) -> Result<Vec<u8>, Failure> {
    let subsamp = match planes.ratio {
        None => Subsamp::Gray,
        Some((1, 1)) => Subsamp::None,
        Some(_) => Subsamp::Sub2x2,
    };
    let (width, height) = (planes.width as usize, planes.height as usize);
    let image = YuvImage { pixels: planes.data.as_slice(), width, align: 1, height, subsamp };
    encoder(settings)?.compress_yuv_to_vec(image).map_err(unencodable)
}

/// Encodes gray or RGB pixels.
pub fn encode(picture: &Picture, settings: &Settings) -> Result<Vec<u8>, Failure> {
    let format = pixel_format(picture.layout)?;
    let subsamp = match settings.subsampling {
        _ if picture.layout == Layout::Gray => Subsamp::Gray,
        Subsampling::Half => Subsamp::Sub2x2,
        Subsampling::Full => Subsamp::None,
    };
    let mut encoder = encoder(settings)?;
    encoder.set_subsamp(subsamp).map_err(unencodable)?;
    let (width, height) = (picture.size.width as usize, picture.size.height as usize);
    let image = Image { pixels: picture.data.as_slice(), width, pitch: width * format.size(), height, format };
    encoder.compress_to_vec(image).map_err(unencodable)
}

/// A decoder that has read a header and nothing else.
struct Opened<'a> {
    decoder: Decompressor,
    /// What is left to decode.
    bytes: Cow<'a, [u8]>,
    header: DecompressHeader,
}

/// Opens a JPEG. The library refuses a header with garbage in it, so that is taken out.
fn open(bytes: &[u8]) -> Result<Opened<'_>, Failure> {
    let mut first = decoder()?;
    if let Ok(header) = first.read_header(bytes) {
        return Ok(Opened { decoder: first, bytes: Cow::Borrowed(bytes), header });
    }
    let clean = markers::without_garbage(bytes);
    let mut second = decoder()?;
    let header = second.read_header(&clean).map_err(Failure::decode)?;
    Ok(Opened { decoder: second, bytes: Cow::Owned(clean), header })
}

fn decoder() -> Result<Decompressor, Failure> {
    let mut decoder = Decompressor::new().map_err(|err| Failure::new(Code::Memory, err))?;
    decoder.set_scan_limit(MAX_SCANS).map_err(Failure::decode)?;
    Ok(decoder)
}

fn scale(decoder: &mut Decompressor, shrink: u32) -> Result<ScalingFactor, Failure> {
    let factor = ScalingFactor::new(1, shrink as usize);
    decoder.set_scaling_factor(factor).map_err(Failure::decode)?;
    Ok(factor)
}

fn encoder(settings: &Settings) -> Result<Compressor, Failure> {
    let mut encoder = Compressor::new().map_err(|err| Failure::new(Code::Memory, err))?;
    encoder.set_quality(i32::from(settings.quality.max(1))).map_err(unencodable)?;
    encoder.set_progressive(settings.progressive).map_err(unencodable)?;
    Ok(encoder)
}

fn pixel_format(layout: Layout) -> Result<PixelFormat, Failure> {
    match layout {
        Layout::Gray => Ok(PixelFormat::GRAY),
        Layout::Rgb => Ok(PixelFormat::RGB),
        Layout::Cmyk => Ok(PixelFormat::CMYK),
        Layout::GrayAlpha | Layout::Rgba => Err(Failure::new(Code::Unsupported, "JPEG has no alpha")),
    }
}

fn unencodable(err: turbojpeg::Error) -> Failure {
    Failure::new(Code::Unsupported, err)
}

/// Sorts what the decoder says: fine, a picture with holes, or no picture. The library tells a warning from an error
/// only by its text.
fn damage(result: turbojpeg::Result<()>) -> Result<Option<Failure>, Failure> {
    let Err(err) = result else { return Ok(None) };
    let text = err.to_string();
    if HARMLESS.iter().any(|harmless| text.contains(harmless)) {
        return Ok(None);
    }
    if text.contains("Premature end of JPEG file") {
        return Ok(Some(Failure::truncated("the data ends early")));
    }
    if text.contains("Corrupt JPEG data") {
        return Ok(Some(Failure::decode(text)));
    }
    let bomb = text.contains("more than") && text.contains("scans");
    Err(Failure::new(if bomb { Code::Bomb } else { Code::Decode }, text))
}
