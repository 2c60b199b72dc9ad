//! The JPEG codec in Rust alone, for builds without cmake and nasm: no planes, no scaling while decoding.
//! Nothing is kept between images.

use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::failure::{Code, Failure};
use crate::jpeg::{Decoded, Planes, Settings, Subsampling};
use crate::markers::{Color, Markers};
use crate::picture::{Layout, Picture};

/// Scans beyond this make a progressive JPEG a bomb of time.
const MAX_SCANS: usize = 200;

/// Whether JPEGs can be decoded to planes, and scaled on the way.
pub const HAS_PLANES: bool = false;

/// Never has planes.
pub fn planes(_: &[u8], _: u32, _: &mut Planes) -> Result<(bool, Option<Failure>), Failure> {
    Ok((false, None))
}

/// Decodes to pixels at the full size.
pub fn pixels(bytes: &[u8], markers: &Markers, _: u32) -> Result<Decoded, Failure> {
    // The decoder turns inks into light, and takes all of them for inverted ones.
    let (layout, space) = match markers.color {
        Color::Gray => (Layout::Gray, ColorSpace::Luma),
        Color::Cmyk { inverted: false } => (Layout::Cmyk, ColorSpace::CMYK),
        _ => (Layout::Rgb, ColorSpace::RGB),
    };
    let options = DecoderOptions::new_safe()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .set_strict_mode(markers.whole)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(space);
    let data = JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode().map_err(Failure::decode)?;
    let mut picture = Picture::new(markers.size, layout);
    if data.len() != picture.data.len() {
        return Err(Failure::decode("pixels of another size or colour than announced"));
    }
    picture.data = data;
    let damage = (!markers.whole).then(|| Failure::truncated("the data ends early"));
    Ok(Decoded { picture, damage })
}

/// Never called: there are no planes.
pub fn encode_planes(_: &Planes, _: &Settings) -> Result<Vec<u8>, Failure> {
    Err(Failure::new(Code::Unsupported, "no planes in this build"))
}

/// Encodes gray or RGB pixels.
pub fn encode(picture: &Picture, settings: &Settings) -> Result<Vec<u8>, Failure> {
    let unencodable = |detail: &str| Failure::new(Code::Unsupported, detail);
    let color = match picture.layout {
        Layout::Gray => ColorType::Luma,
        Layout::Rgb => ColorType::Rgb,
        _ => return Err(unencodable("JPEG has no alpha")),
    };
    let (Ok(width), Ok(height)) = (u16::try_from(picture.size.width), u16::try_from(picture.size.height)) else {
        return Err(unencodable("too large for a JPEG"));
    };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&mut out, settings.quality.max(1));
    encoder.set_progressive(settings.progressive);
    encoder.set_chroma_subsampling_method(ChromaSubsamplingMethod::Average);
    encoder.set_sampling_factor(match settings.subsampling {
        Subsampling::Half => SamplingFactor::F_2_2,
        Subsampling::Full => SamplingFactor::F_1_1,
    });
    encoder.encode(&picture.data, width, height, color).map_err(|err| unencodable(&err.to_string()))?;
    Ok(out)
}
