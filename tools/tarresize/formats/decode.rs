//! Decodes every format except JPEG to 8-bit pixels: still WebP with libwebp, TIFF, AVIF, JPEG 2000 and JPEG XL in
//! modules of their own, everything else with the image crate.

use image::{ColorType, ImageDecoder, ImageFormat};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
#[cfg(feature = "avif")]
use crate::tarresize::formats::avif::{self, AvifLayout};
use crate::tarresize::formats::chunks;
use crate::tarresize::formats::header::{self, ImageHeader, ImageKind};
#[cfg(feature = "jpeg2000")]
use crate::tarresize::formats::jpeg2000::Jpeg2000;
#[cfg(feature = "jpegxl")]
use crate::tarresize::formats::jpegxl::JxlHeader;
use crate::tarresize::formats::tiff::{self, layout::TiffLayout};
use crate::tarresize::geometry::PixelSize;
use crate::tarresize::jpeg::DecodedPicture;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// Decodes the first frame of an image that is not a JPEG.
pub fn decode(bytes: &[u8], header: &ImageHeader) -> Result<DecodedPicture, ImageFailure> {
    match header.kind {
        ImageKind::Webp if header.frames == 1 => decode_webp(bytes),
        ImageKind::Webp => decode_other(bytes, ImageFormat::WebP),
        ImageKind::Tiff => tiff::decode(bytes, &TiffLayout::read(bytes)?),
        #[cfg(feature = "avif")]
        ImageKind::Avif => avif::decode(&AvifLayout::read(bytes)?),
        #[cfg(feature = "jpeg2000")]
        ImageKind::Jpeg2000 => Jpeg2000::open(bytes)?.decode(),
        #[cfg(feature = "jpegxl")]
        ImageKind::JpegXl => JxlHeader::read(bytes)?.decode(bytes),
        ImageKind::Other(format) => decode_other(bytes, format),
        // A header of these is never made: JPEG has its own decoder, and formats left out of the build are refused.
        _ => Err(ImageFailure::decode("internal error: image sent to the wrong decoder")),
    }
}

fn decode_webp(bytes: &[u8]) -> Result<DecodedPicture, ImageFailure> {
    let Some(image) = webp::Decoder::new(bytes).decode() else {
        let ends_early = !chunks::read_webp(bytes).is_complete;
        return Err(if ends_early {
            ImageFailure::truncated("unexpected end of data")
        } else {
            ImageFailure::decode("damaged WebP data")
        });
    };
    let layout = if image.is_alpha() { PixelLayout::Rgba } else { PixelLayout::Rgb };
    let picture = Picture { size: PixelSize::new(image.width(), image.height()), layout, data: image.to_vec() };
    Ok(DecodedPicture { picture, damage: None })
}

fn decode_other(bytes: &[u8], format: ImageFormat) -> Result<DecodedPicture, ImageFailure> {
    let decoder = header::open_decoder(bytes, format)?;
    let (width, height) = decoder.dimensions();
    let color = decoder.color_type();
    let total = usize::try_from(decoder.total_bytes()).map_err(ImageFailure::decode)?;
    let mut data = vec![0; total];
    let damage = decoder.read_image(&mut data).err().map(|err| header::from_image_error(&err));
    // After an early end, samples of more than 8 bits are still in the byte order of the file, so only 8-bit pixels can
    // be kept.
    let keepable = color.bytes_per_pixel() == color.channel_count();
    if let Some(failure) = damage.clone().filter(|failure| failure.code != ImageFailureCode::Truncated || !keepable) {
        return Err(failure);
    }
    let (layout, data) = to_8_bits(color, data)?;
    Ok(DecodedPicture { picture: Picture { size: PixelSize::new(width, height), layout, data }, damage })
}

/// Converts samples of any depth to 8 bits by scaling, not by truncating.
fn to_8_bits(color: ColorType, data: Vec<u8>) -> Result<(PixelLayout, Vec<u8>), ImageFailure> {
    let words = |data: &[u8]| data.as_chunks::<2>().0.iter().map(|pair| from_16(u16::from_ne_bytes(*pair))).collect();
    let floats =
        |data: &[u8]| data.as_chunks::<4>().0.iter().map(|four| from_float(f32::from_ne_bytes(*four))).collect();
    Ok(match color {
        ColorType::L8 => (PixelLayout::Gray, data),
        ColorType::La8 => (PixelLayout::GrayAlpha, data),
        ColorType::Rgb8 => (PixelLayout::Rgb, data),
        ColorType::Rgba8 => (PixelLayout::Rgba, data),
        ColorType::L16 => (PixelLayout::Gray, words(&data)),
        ColorType::La16 => (PixelLayout::GrayAlpha, words(&data)),
        ColorType::Rgb16 => (PixelLayout::Rgb, words(&data)),
        ColorType::Rgba16 => (PixelLayout::Rgba, words(&data)),
        ColorType::Rgb32F => (PixelLayout::Rgb, floats(&data)),
        ColorType::Rgba32F => (PixelLayout::Rgba, floats(&data)),
        other => {
            return Err(ImageFailure::new(
                ImageFailureCode::Unsupported,
                format!("unsupported pixel format {other:?}"),
            ));
        }
    })
}

fn from_16(value: u16) -> u8 {
    ((u32::from(value) + 128) / 257) as u8
}

fn from_float(value: f32) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bits_scale_instead_of_saturating() {
        assert_eq!([0, 128, 129, 257, 32_768, 65_535].map(from_16), [0, 0, 1, 1, 128, 255]);
        assert_eq!([-1.0, 0.5, 7.0, f32::NAN].map(from_float), [0, 128, 255, 0]);
    }
}
