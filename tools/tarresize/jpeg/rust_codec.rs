//! The pure-Rust JPEG codec, for builds without cmake and nasm: no planes, no scaling while decoding. It has the same
//! functions as `turbo_codec`.

use jpeg_encoder::{ChromaSubsamplingMethod, ColorType, Encoder, SamplingFactor};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::jpeg::markers::{JpegColor, Markers};
use crate::tarresize::jpeg::planes::YuvPlanes;
use crate::tarresize::jpeg::{DecodedPicture, JpegSettings, Subsampling};
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// A progressive JPEG with more scans takes too long to decode.
const MAX_SCANS: usize = 200;

/// Whether this codec can decode to planes and scale while decoding.
pub const HAS_PLANES: bool = false;

/// Returns false: this codec has no planes.
pub fn decode_planes(_: &[u8], _: u32, _: &mut YuvPlanes) -> Result<(bool, Option<ImageFailure>), ImageFailure> {
    Ok((false, None))
}

/// Decodes to pixels at full size.
pub fn decode_pixels(bytes: &[u8], markers: &Markers, _: u32) -> Result<DecodedPicture, ImageFailure> {
    // The decoder converts CMYK to RGB and assumes that all CMYK is inverted.
    let (layout, space) = match markers.color {
        JpegColor::Gray => (PixelLayout::Gray, ColorSpace::Luma),
        JpegColor::Cmyk { inverted: false } => (PixelLayout::Cmyk, ColorSpace::CMYK),
        _ => (PixelLayout::Rgb, ColorSpace::RGB),
    };
    let options = DecoderOptions::new_safe()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .set_strict_mode(markers.is_complete)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(space);
    let data = JpegDecoder::new_with_options(ZCursor::new(bytes), options).decode().map_err(ImageFailure::decode)?;
    let mut picture = Picture::new(markers.size, layout);
    if data.len() != picture.data.len() {
        return Err(ImageFailure::decode("size or colour model differs from the header"));
    }
    picture.data = data;
    let damage = (!markers.is_complete).then(|| ImageFailure::truncated("unexpected end of data"));
    Ok(DecodedPicture { picture, damage })
}

/// Not called: this codec has no planes.
pub fn encode_planes(_: &YuvPlanes, _: &JpegSettings) -> Result<Vec<u8>, ImageFailure> {
    Err(ImageFailure::new(ImageFailureCode::Unsupported, "internal error: this codec has no planes"))
}

/// Encodes gray or RGB pixels.
pub fn encode_pixels(picture: &Picture, settings: &JpegSettings) -> Result<Vec<u8>, ImageFailure> {
    let unencodable = |detail: &str| ImageFailure::new(ImageFailureCode::Unsupported, detail);
    let color = match picture.layout {
        PixelLayout::Gray => ColorType::Luma,
        PixelLayout::Rgb => ColorType::Rgb,
        _ => return Err(unencodable("JPEG does not support transparency")),
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
