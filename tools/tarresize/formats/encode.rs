//! Encodes pixels as JPEG, PNG or WebP, with the metadata to keep.

use clap::ValueEnum;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageFormat};

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::header::ImageKind;
use crate::tarresize::jpeg::{self, JpegSettings, codec};
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

/// The formats an image can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetFormat {
    Jpg,
    Png,
    Webp,
}

impl TargetFormat {
    /// The format of the input if it can be written, else PNG, which is lossless.
    pub fn nearest_to(kind: ImageKind) -> Self {
        match kind {
            ImageKind::Jpeg => TargetFormat::Jpg,
            ImageKind::Webp => TargetFormat::Webp,
            _ => TargetFormat::Png,
        }
    }

    /// Whether an image of this kind is in this format.
    pub fn matches(self, kind: ImageKind) -> bool {
        match self {
            TargetFormat::Jpg => kind == ImageKind::Jpeg,
            TargetFormat::Png => kind == ImageKind::Other(ImageFormat::Png),
            TargetFormat::Webp => kind == ImageKind::Webp,
        }
    }

    /// The usual file extension, which also names the format in reports.
    pub fn name(self) -> &'static str {
        match self {
            TargetFormat::Jpg => "jpg",
            TargetFormat::Png => "png",
            TargetFormat::Webp => "webp",
        }
    }

    /// Whether `extension` is a usual one for this format.
    pub fn has_extension(self, extension: &str) -> bool {
        let names: &[&str] = match self {
            TargetFormat::Jpg => &["jpg", "jpeg", "jpe", "jfif"],
            TargetFormat::Png => &["png"],
            TargetFormat::Webp => &["webp"],
        };
        names.iter().any(|name| extension.eq_ignore_ascii_case(name))
    }
}

/// What the file contains besides pixels.
#[derive(Default)]
pub struct ImageMetadata {
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
}

impl ImageMetadata {
    fn is_empty(&self) -> bool {
        self.exif.is_none() && self.icc.is_none()
    }
}

/// Encoder settings for each format.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    pub jpeg: JpegSettings,
    /// 0 to 100.
    pub webp: u8,
    /// 0 to 9.
    pub png: u8,
}

/// Encodes a picture. For JPEG the caller has already flattened transparency.
pub fn encode(
    picture: Picture,
    format: TargetFormat,
    quality: &Quality,
    metadata: ImageMetadata,
) -> Result<Vec<u8>, ImageFailure> {
    match format {
        TargetFormat::Jpg => {
            let bytes = codec::encode_pixels(&picture, &quality.jpeg)?;
            Ok(jpeg::with_metadata(bytes, metadata.exif.as_deref(), metadata.icc.as_deref()))
        }
        TargetFormat::Png => encode_png(&picture, quality.png, metadata),
        TargetFormat::Webp => encode_webp(picture.into_rgb(), quality.webp, &metadata),
    }
}

fn encode_png(picture: &Picture, level: u8, metadata: ImageMetadata) -> Result<Vec<u8>, ImageFailure> {
    let unencodable = |err| ImageFailure::new(ImageFailureCode::Unsupported, err);
    let compression = if level == 0 { CompressionType::Uncompressed } else { CompressionType::Level(level) };
    let mut out = Vec::new();
    let mut encoder = PngEncoder::new_with_quality(&mut out, compression, FilterType::Adaptive);
    if let Some(icc) = metadata.icc {
        encoder.set_icc_profile(icc).map_err(|err| ImageFailure::new(ImageFailureCode::Unsupported, err))?;
    }
    if let Some(exif) = metadata.exif {
        encoder.set_exif_metadata(exif).map_err(|err| ImageFailure::new(ImageFailureCode::Unsupported, err))?;
    }
    let color = match picture.layout {
        PixelLayout::Gray => ExtendedColorType::L8,
        PixelLayout::GrayAlpha => ExtendedColorType::La8,
        PixelLayout::Rgb => ExtendedColorType::Rgb8,
        PixelLayout::Rgba => ExtendedColorType::Rgba8,
        PixelLayout::Cmyk => return Err(ImageFailure::new(ImageFailureCode::Unsupported, "PNG does not support CMYK")),
    };
    encoder.write_image(&picture.data, picture.size.width, picture.size.height, color).map_err(unencodable)?;
    Ok(out)
}

fn encode_webp(picture: Picture, quality: u8, metadata: &ImageMetadata) -> Result<Vec<u8>, ImageFailure> {
    let (width, height) = (picture.size.width, picture.size.height);
    let encoder = match picture.layout {
        PixelLayout::Rgba => webp::Encoder::from_rgba(&picture.data, width, height),
        PixelLayout::Rgb => webp::Encoder::from_rgb(&picture.data, width, height),
        _ => return Err(ImageFailure::new(ImageFailureCode::Unsupported, "WebP does not support this pixel layout")),
    };
    let unencodable = |err| {
        ImageFailure::new(ImageFailureCode::Unsupported, format!("cannot encode {width}x{height} as WebP: {err:?}"))
    };
    let simple = encoder.encode_simple(false, f32::from(quality)).map_err(unencodable)?;
    Ok(if metadata.is_empty() { simple.to_vec() } else { extended_webp(&simple, &picture, metadata) })
}

/// Turns a WebP with a single image chunk into one with metadata.
fn extended_webp(simple: &[u8], picture: &Picture, metadata: &ImageMetadata) -> Vec<u8> {
    const ICC: u8 = 0x20;
    const ALPHA: u8 = 0x10;
    const EXIF: u8 = 0x08;
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(metadata.icc.is_some(), ICC)
        | flag(picture.layout == PixelLayout::Rgba, ALPHA)
        | flag(metadata.exif.is_some(), EXIF);
    let mut header = vec![flags, 0, 0, 0];
    header.extend(&(picture.size.width - 1).to_le_bytes()[..3]);
    header.extend(&(picture.size.height - 1).to_le_bytes()[..3]);
    let mut body = b"WEBP".to_vec();
    push_chunk(&mut body, b"VP8X", &header);
    if let Some(icc) = &metadata.icc {
        push_chunk(&mut body, b"ICCP", icc);
    }
    // With lossy alpha the encoder has already written an extended header: skip the 12 bytes of RIFF and its 18 bytes.
    let pixels = if simple.get(12..16) == Some(b"VP8X") { 30 } else { 12 };
    body.extend(&simple[pixels..]);
    if let Some(exif) = &metadata.exif {
        push_chunk(&mut body, b"EXIF", exif);
    }
    let mut file = b"RIFF".to_vec();
    file.extend((body.len() as u32).to_le_bytes());
    file.extend(body);
    file
}

fn push_chunk(out: &mut Vec<u8>, name: &[u8; 4], body: &[u8]) {
    out.extend(name);
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    if body.len() % 2 == 1 {
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarresize::formats::header;
    use crate::tarresize::geometry::PixelSize;
    use crate::tarresize::jpeg::Subsampling;

    #[test]
    fn every_format_keeps_size_and_metadata() {
        let jpeg = JpegSettings { quality: 90, subsampling: Subsampling::Half, progressive: false };
        let quality = Quality { jpeg, webp: 80, png: 6 };
        let icc = moxcms::ColorProfile::new_display_p3().encode().unwrap();
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
        for (format, layout) in [
            (TargetFormat::Jpg, PixelLayout::Gray),
            (TargetFormat::Jpg, PixelLayout::Rgb),
            (TargetFormat::Png, PixelLayout::GrayAlpha),
            (TargetFormat::Png, PixelLayout::Rgba),
            (TargetFormat::Webp, PixelLayout::Gray),
            (TargetFormat::Webp, PixelLayout::Rgba),
        ] {
            let metadata = ImageMetadata { exif: Some(exif.clone()), icc: Some(icc.clone()) };
            let picture = Picture::new(PixelSize::new(33, 21), layout);
            let bytes = encode(picture, format, &quality, metadata).unwrap();
            let header = header::read(&bytes).unwrap();
            assert!(format.matches(header.kind));
            assert_eq!(
                (header.size, header.orientation.to_exif()),
                (PixelSize::new(33, 21), 6),
                "{format:?} {layout:?}"
            );
            assert_eq!((header.icc, header.exif), (Some(icc.clone()), Some(exif.clone())), "{format:?} {layout:?}");
        }
    }
}
