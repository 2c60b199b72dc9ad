//! Pixels to the bytes of a file: JPEG, PNG or WebP, with the metadata that is kept.

use clap::ValueEnum;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageFormat};

use crate::failure::{Code, Failure};
use crate::head::Kind;
use crate::jpeg::{self, Settings, codec};
use crate::picture::{Layout, Picture};

/// The formats that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Jpg,
    Png,
    Webp,
}

impl Format {
    /// The format of an image where it can be written; PNG for the other kinds, since it loses nothing.
    pub fn keeping(kind: Kind) -> Self {
        match kind {
            Kind::Jpeg => Format::Jpg,
            Kind::Webp => Format::Webp,
            Kind::Other(_) => Format::Png,
        }
    }

    /// Whether an image of this kind already is of this format.
    pub fn is(self, kind: Kind) -> bool {
        match self {
            Format::Jpg => kind == Kind::Jpeg,
            Format::Png => kind == Kind::Other(ImageFormat::Png),
            Format::Webp => kind == Kind::Webp,
        }
    }

    /// The usual extension, which is also its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Jpg => "jpg",
            Format::Png => "png",
            Format::Webp => "webp",
        }
    }

    /// Whether a file extension stands for this format.
    pub fn has_extension(self, extension: &str) -> bool {
        let names: &[&str] = match self {
            Format::Jpg => &["jpg", "jpeg", "jpe", "jfif"],
            Format::Png => &["png"],
            Format::Webp => &["webp"],
        };
        names.iter().any(|name| extension.eq_ignore_ascii_case(name))
    }
}

/// What goes into the file beside the pixels.
#[derive(Default)]
pub struct Metadata {
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
}

impl Metadata {
    fn is_empty(&self) -> bool {
        self.exif.is_none() && self.icc.is_none()
    }
}

/// How images are written, whichever format they get.
#[derive(Clone, Copy, Debug)]
pub struct Quality {
    pub jpeg: Settings,
    /// 0 to 100.
    pub webp: u8,
    /// 0 to 9.
    pub png: u8,
}

/// The file of a picture. JPEG takes no alpha: the caller has laid it over a background.
pub fn encode(picture: Picture, format: Format, quality: &Quality, metadata: Metadata) -> Result<Vec<u8>, Failure> {
    match format {
        Format::Jpg => {
            let bytes = codec::encode(&picture, &quality.jpeg)?;
            Ok(jpeg::with_metadata(bytes, metadata.exif.as_deref(), metadata.icc.as_deref()))
        }
        Format::Png => png(&picture, quality.png, metadata),
        Format::Webp => webp(picture.colored(), quality.webp, &metadata),
    }
}

fn png(picture: &Picture, level: u8, metadata: Metadata) -> Result<Vec<u8>, Failure> {
    let unencodable = |err| Failure::new(Code::Unsupported, err);
    let compression = if level == 0 { CompressionType::Uncompressed } else { CompressionType::Level(level) };
    let mut out = Vec::new();
    let mut encoder = PngEncoder::new_with_quality(&mut out, compression, FilterType::Adaptive);
    if let Some(icc) = metadata.icc {
        encoder.set_icc_profile(icc).map_err(|err| Failure::new(Code::Unsupported, err))?;
    }
    if let Some(exif) = metadata.exif {
        encoder.set_exif_metadata(exif).map_err(|err| Failure::new(Code::Unsupported, err))?;
    }
    let color = match picture.layout {
        Layout::Gray => ExtendedColorType::L8,
        Layout::GrayAlpha => ExtendedColorType::La8,
        Layout::Rgb => ExtendedColorType::Rgb8,
        Layout::Rgba => ExtendedColorType::Rgba8,
        Layout::Cmyk => return Err(Failure::new(Code::Unsupported, "PNG has no inks")),
    };
    encoder.write_image(&picture.data, picture.size.width, picture.size.height, color).map_err(unencodable)?;
    Ok(out)
}

fn webp(picture: Picture, quality: u8, metadata: &Metadata) -> Result<Vec<u8>, Failure> {
    let (width, height) = (picture.size.width, picture.size.height);
    let encoder = match picture.layout {
        Layout::Rgba => webp::Encoder::from_rgba(&picture.data, width, height),
        Layout::Rgb => webp::Encoder::from_rgb(&picture.data, width, height),
        _ => return Err(Failure::new(Code::Unsupported, "WebP has neither gray nor inks")),
    };
    let unencodable = |err| Failure::new(Code::Unsupported, format!("{err:?} for a WebP of {width}x{height}"));
    let simple = encoder.encode_simple(false, f32::from(quality)).map_err(unencodable)?;
    Ok(if metadata.is_empty() { simple.to_vec() } else { extended_webp(&simple, &picture, metadata) })
}

/// A WebP of one image chunk made into one with metadata.
fn extended_webp(simple: &[u8], picture: &Picture, metadata: &Metadata) -> Vec<u8> {
    const ICC: u8 = 0x20;
    const ALPHA: u8 = 0x10;
    const EXIF: u8 = 0x08;
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let flags = flag(metadata.icc.is_some(), ICC)
        | flag(picture.layout == Layout::Rgba, ALPHA)
        | flag(metadata.exif.is_some(), EXIF);
    let mut head = vec![flags, 0, 0, 0];
    head.extend(&(picture.size.width - 1).to_le_bytes()[..3]);
    head.extend(&(picture.size.height - 1).to_le_bytes()[..3]);
    let mut body = b"WEBP".to_vec();
    chunk(&mut body, b"VP8X", &head);
    if let Some(icc) = &metadata.icc {
        chunk(&mut body, b"ICCP", icc);
    }
    // The encoder writes an extended head of its own for lossy alpha: 12 bytes of RIFF, then 18 of it.
    let pixels = if simple.get(12..16) == Some(b"VP8X") { 30 } else { 12 };
    body.extend(&simple[pixels..]);
    if let Some(exif) = &metadata.exif {
        chunk(&mut body, b"EXIF", exif);
    }
    let mut file = b"RIFF".to_vec();
    file.extend((body.len() as u32).to_le_bytes());
    file.extend(body);
    file
}

fn chunk(out: &mut Vec<u8>, name: &[u8; 4], body: &[u8]) {
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
    use crate::head;
    use crate::jpeg::Subsampling;
    use crate::size::Size;

    #[test]
    fn every_format_keeps_size_and_metadata() {
        let jpeg = Settings { quality: 90, subsampling: Subsampling::Half, progressive: false };
        let quality = Quality { jpeg, webp: 80, png: 6 };
        let icc = moxcms::ColorProfile::new_display_p3().encode().unwrap();
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
        for (format, layout) in [
            (Format::Jpg, Layout::Gray),
            (Format::Jpg, Layout::Rgb),
            (Format::Png, Layout::GrayAlpha),
            (Format::Png, Layout::Rgba),
            (Format::Webp, Layout::Gray),
            (Format::Webp, Layout::Rgba),
        ] {
            let metadata = Metadata { exif: Some(exif.clone()), icc: Some(icc.clone()) };
            let picture = Picture::new(Size::new(33, 21), layout);
            let bytes = encode(picture, format, &quality, metadata).unwrap();
            let head = head::read(&bytes).unwrap();
            assert!(format.is(head.kind));
            assert_eq!((head.size, head.orientation.to_exif()), (Size::new(33, 21), 6), "{format:?} {layout:?}");
            assert_eq!((head.icc, head.exif), (Some(icc.clone()), Some(exif.clone())), "{format:?} {layout:?}");
        }
    }
}
