//! JPEG: encoder settings, metadata segments, and the choice of codec, libjpeg-turbo or pure Rust.

pub mod markers;
pub mod planes;
#[cfg(not(feature = "turbojpeg"))]
pub mod rust_codec;
#[cfg(feature = "turbojpeg")]
pub mod turbo_codec;

use clap::ValueEnum;

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::jpeg::markers::JpegColor;
use crate::tarresize::pixels::picture::{Picture, PixelLayout};

#[cfg(not(feature = "turbojpeg"))]
pub(in crate::tarresize) use crate::tarresize::jpeg::rust_codec as codec;
#[cfg(feature = "turbojpeg")]
pub(in crate::tarresize) use crate::tarresize::jpeg::turbo_codec as codec;

/// Chroma subsampling of written JPEGs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subsampling {
    /// Half of the colour resolution in both directions
    #[value(name = "420")]
    Half,
    /// Full colour resolution
    #[value(name = "444")]
    Full,
}

/// How to encode a JPEG.
#[derive(Clone, Copy, Debug)]
pub struct JpegSettings {
    pub quality: u8,
    pub subsampling: Subsampling,
    pub progressive: bool,
}

/// A decoded picture, and the damage that the decoder was able to skip.
pub struct DecodedPicture {
    pub picture: Picture,
    pub damage: Option<ImageFailure>,
}

/// The pixel layout that a JPEG is decoded to.
pub fn pixel_layout(color: JpegColor) -> PixelLayout {
    match color {
        JpegColor::Gray => PixelLayout::Gray,
        JpegColor::YCbCr | JpegColor::Rgb => PixelLayout::Rgb,
        JpegColor::Cmyk { .. } => PixelLayout::Cmyk,
    }
}

/// Converts Adobe's inverted CMYK, where 255 means no ink.
#[cfg(feature = "turbojpeg")]
pub fn uninverted(mut picture: Picture, color: JpegColor) -> Picture {
    if color == (JpegColor::Cmyk { inverted: true }) {
        picture.data.iter_mut().for_each(|value| *value = 255 - *value);
    }
    picture
}

/// Inserts metadata segments after the JFIF header. An EXIF block that does not fit into one segment is left out.
pub fn with_metadata(jpeg: Vec<u8>, exif: Option<&[u8]>, icc: Option<&[u8]>) -> Vec<u8> {
    const MAX_SEGMENT: usize = 65_533;
    let mut segments = Vec::new();
    if let Some(exif) = exif.filter(|exif| exif.len() + 6 <= MAX_SEGMENT) {
        push_segment(&mut segments, 0xe1, &[b"Exif\0\0", exif]);
    }
    let parts: Vec<&[u8]> = icc.unwrap_or_default().chunks(MAX_SEGMENT - 14).collect();
    if let Ok(count) = u8::try_from(parts.len()) {
        for (number, part) in (1..=count).zip(parts) {
            push_segment(&mut segments, 0xe2, &[b"ICC_PROFILE\0", &[number, count], part]);
        }
    }
    if segments.is_empty() {
        return jpeg;
    }
    let at =
        if jpeg.get(2..4) == Some(&[0xff, 0xe0]) { 4 + usize::from(u16::from_be_bytes([jpeg[4], jpeg[5]])) } else { 2 };
    [&jpeg[..at], &segments, &jpeg[at..]].concat()
}

fn push_segment(out: &mut Vec<u8>, marker: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend([0xff, marker]);
    out.extend(((len + 2) as u16).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tarresize::geometry::PixelSize;
    use crate::tarresize::jpeg::markers;

    #[test]
    fn metadata_is_read_back() {
        let picture = Picture::new(PixelSize::new(8, 8), PixelLayout::Rgb);
        let settings = JpegSettings { quality: 90, subsampling: Subsampling::Half, progressive: false };
        let jpeg = codec::encode_pixels(&picture, &settings).unwrap();
        let icc: Vec<u8> = (0..70_000u32).map(|i| i as u8).collect();
        let read = markers::read(&with_metadata(jpeg, Some(b"II*\0"), Some(&icc))).unwrap();
        assert!(read.is_complete);
        assert_eq!((read.exif.as_deref(), read.icc), (Some(b"II*\0".as_slice()), Some(icc)));
    }
}
