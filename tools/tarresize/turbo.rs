//! The JPEG codec on libjpeg-turbo: SIMD, planes in and out, scaling while decoding.

use std::borrow::Cow;

use turbojpeg::{
    Compressor, DecompressHeader, Decompressor, Image, OutputBuf, PixelFormat, ScalingFactor, Subsamp, YuvImage,
};

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

/// Decoder and encoder with their buffers, for one thread.
pub struct Codec {
    decompressor: Decompressor,
    compressor: Compressor,
    out: OutputBuf<'static>,
}

impl Codec {
    /// Whether JPEGs can be decoded to planes, and scaled on the way.
    pub const HAS_PLANES: bool = true;

    pub fn new() -> Result<Self, Failure> {
        let mut decompressor = Decompressor::new().map_err(Failure::decode)?;
        decompressor.set_scan_limit(MAX_SCANS).map_err(Failure::decode)?;
        let compressor = Compressor::new().map_err(Failure::decode)?;
        Ok(Self { decompressor, compressor, out: OutputBuf::new_owned() })
    }

    /// Decodes to planes at 1/`shrink` of the size, and says what was wrong with the data. False where the
    /// subsampling is none that planes can have.
    pub fn planes(
        &mut self,
        bytes: &[u8],
        shrink: u32,
        planes: &mut Planes,
    ) -> Result<(bool, Option<Failure>), Failure> {
        let (bytes, header) = self.header(bytes)?;
        let ratio = match header.subsamp {
            Subsamp::Unknown => return Ok((false, None)),
            Subsamp::Gray => None,
            other => Some((other.width() as u32, other.height() as u32)),
        };
        let factor = self.scale(shrink)?;
        let (width, height) = (factor.scale(header.width), factor.scale(header.height));
        planes.reset(Size::new(width as u32, height as u32), ratio);
        let image = YuvImage { pixels: planes.data.as_mut_slice(), width, align: 1, height, subsamp: header.subsamp };
        let damage = damage(self.decompressor.decompress_to_yuv(&bytes, image))?;
        Ok((true, damage))
    }

    /// Decodes to pixels at 1/`shrink` of the size.
    pub fn pixels(&mut self, bytes: &[u8], markers: &Markers, shrink: u32) -> Result<Decoded, Failure> {
        let (bytes, header) = self.header(bytes)?;
        let factor = self.scale(shrink)?;
        let (width, height) = (factor.scale(header.width), factor.scale(header.height));
        let mut picture = Picture::new(Size::new(width as u32, height as u32), layout(markers.color));
        let format = pixel_format(picture.layout)?;
        let image = Image { pixels: picture.data.as_mut_slice(), width, pitch: width * format.size(), height, format };
        let damage = damage(self.decompressor.decompress(&bytes, image))?;
        Ok(Decoded { picture: upright(picture, markers.color), damage })
    }

    /// Encodes planes as they are.
    pub fn encode_planes(&mut self, planes: &Planes, settings: &Settings) -> Result<Vec<u8>, Failure> {
        self.set(settings)?;
        let subsamp = match planes.ratio {
            None => Subsamp::Gray,
            Some((1, 1)) => Subsamp::None,
            Some(_) => Subsamp::Sub2x2,
        };
        let (width, height) = (planes.width as usize, planes.height as usize);
        let image = YuvImage { pixels: planes.data.as_slice(), width, align: 1, height, subsamp };
        self.compressor.compress_yuv(image, &mut self.out).map_err(unencodable)?;
        Ok(self.out.to_vec())
    }

    /// Encodes gray or RGB pixels.
    pub fn encode(&mut self, picture: &Picture, settings: &Settings) -> Result<Vec<u8>, Failure> {
        self.set(settings)?;
        let format = pixel_format(picture.layout)?;
        let subsamp = match settings.subsampling {
            _ if picture.layout == Layout::Gray => Subsamp::Gray,
            Subsampling::Half => Subsamp::Sub2x2,
            Subsampling::Full => Subsamp::None,
        };
        self.compressor.set_subsamp(subsamp).map_err(unencodable)?;
        let (width, height) = (picture.size.width as usize, picture.size.height as usize);
        let image = Image { pixels: picture.data.as_slice(), width, pitch: width * format.size(), height, format };
        self.compressor.compress(image, &mut self.out).map_err(unencodable)?;
        Ok(self.out.to_vec())
    }

    /// The header, and the bytes to decode: the library refuses a header with garbage in it, so that is taken out.
    fn header<'a>(&mut self, bytes: &'a [u8]) -> Result<(Cow<'a, [u8]>, DecompressHeader), Failure> {
        if let Ok(header) = self.decompressor.read_header(bytes) {
            return Ok((Cow::Borrowed(bytes), header));
        }
        let clean = markers::without_garbage(bytes);
        let header = self.decompressor.read_header(&clean).map_err(Failure::decode)?;
        Ok((Cow::Owned(clean), header))
    }

    fn scale(&mut self, shrink: u32) -> Result<ScalingFactor, Failure> {
        let factor = ScalingFactor::new(1, shrink as usize);
        self.decompressor.set_scaling_factor(factor).map_err(Failure::decode)?;
        Ok(factor)
    }

    fn set(&mut self, settings: &Settings) -> Result<(), Failure> {
        self.compressor.set_quality(i32::from(settings.quality.max(1))).map_err(unencodable)?;
        self.compressor.set_progressive(settings.progressive).map_err(unencodable)
    }
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
