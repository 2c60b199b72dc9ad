//! Everything but JPEG to 8-bit pixels: WebP by libwebp, the rest by the image crate.

use image::{ColorType, ImageDecoder, ImageFormat};

use crate::failure::{Code, Failure};
use crate::frames;
use crate::head::{self, Head, Kind};
use crate::jpeg::Decoded;
use crate::picture::{Layout, Picture};
use crate::size::Size;

/// The first frame of an image that is no JPEG.
pub fn decode(bytes: &[u8], head: &Head) -> Result<Decoded, Failure> {
    match head.kind {
        Kind::Webp if head.frames == 1 => webp(bytes),
        Kind::Webp => other(bytes, ImageFormat::WebP),
        Kind::Other(format) => other(bytes, format),
        Kind::Jpeg => Err(Failure::decode("a JPEG goes another way")),
    }
}

fn webp(bytes: &[u8]) -> Result<Decoded, Failure> {
    let Some(image) = webp::Decoder::new(bytes).decode() else {
        let cut = !frames::webp(bytes).whole;
        return Err(if cut {
            Failure::truncated("the data ends early")
        } else {
            Failure::decode("WebP data is damaged")
        });
    };
    let layout = if image.is_alpha() { Layout::Rgba } else { Layout::Rgb };
    let picture = Picture { size: Size::new(image.width(), image.height()), layout, data: image.to_vec() };
    Ok(Decoded { picture, damage: None })
}

fn other(bytes: &[u8], format: ImageFormat) -> Result<Decoded, Failure> {
    let decoder = head::decoder(bytes, format)?;
    let (width, height) = decoder.dimensions();
    let color = decoder.color_type();
    let total = usize::try_from(decoder.total_bytes()).map_err(Failure::decode)?;
    let mut data = vec![0; total];
    let damage = decoder.read_image(&mut data).err().map(|err| head::from_image_error(&err));
    // A decoder that stopped early leaves wider samples in the byte order of the file: only bytes can be kept.
    let keepable = color.bytes_per_pixel() == color.channel_count();
    if let Some(failure) = damage.clone().filter(|failure| failure.code != Code::Truncated || !keepable) {
        return Err(failure);
    }
    let (layout, data) = to_8_bits(color, data)?;
    Ok(Decoded { picture: Picture { size: Size::new(width, height), layout, data }, damage })
}

/// Samples of any depth scaled (not cut) to 8 bits.
fn to_8_bits(color: ColorType, data: Vec<u8>) -> Result<(Layout, Vec<u8>), Failure> {
    let halves = |data: &[u8]| data.as_chunks::<2>().0.iter().map(|pair| from_16(u16::from_ne_bytes(*pair))).collect();
    let floats =
        |data: &[u8]| data.as_chunks::<4>().0.iter().map(|four| from_float(f32::from_ne_bytes(*four))).collect();
    Ok(match color {
        ColorType::L8 => (Layout::Gray, data),
        ColorType::La8 => (Layout::GrayAlpha, data),
        ColorType::Rgb8 => (Layout::Rgb, data),
        ColorType::Rgba8 => (Layout::Rgba, data),
        ColorType::L16 => (Layout::Gray, halves(&data)),
        ColorType::La16 => (Layout::GrayAlpha, halves(&data)),
        ColorType::Rgb16 => (Layout::Rgb, halves(&data)),
        ColorType::Rgba16 => (Layout::Rgba, halves(&data)),
        ColorType::Rgb32F => (Layout::Rgb, floats(&data)),
        ColorType::Rgba32F => (Layout::Rgba, floats(&data)),
        other => return Err(Failure::new(Code::Unsupported, format!("pixels of kind {other:?}"))),
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
