//! JPEG in and out: the planes of its colours, the settings of its encoder, and which codec does the work.

use std::ops::Range;

use clap::ValueEnum;

use crate::failure::Failure;
use crate::markers::Color;
use crate::picture::{Layout, Picture};
use crate::size::Size;

#[cfg(not(feature = "turbojpeg"))]
pub(crate) use crate::pure as codec;
#[cfg(feature = "turbojpeg")]
pub(crate) use crate::turbo as codec;

/// How many pixels share their colour in a JPEG that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subsampling {
    /// Colour for every second pixel of every second row
    #[value(name = "420")]
    Half,
    /// Colour for every pixel
    #[value(name = "444")]
    Full,
}

/// How a JPEG is written.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub quality: u8,
    pub subsampling: Subsampling,
    pub progressive: bool,
}

/// A picture, and what was wrong with its data where a decoder could go on.
pub struct Decoded {
    pub picture: Picture,
    pub damage: Option<Failure>,
}

/// Luma and chroma planes one after the other, without gaps; the luma plane is padded to whole chroma samples.
#[derive(Default)]
pub struct Planes {
    pub data: Vec<u8>,
    pub width: u32,
    pub height: u32,
    /// Luma samples for one of chroma, across and down; none for gray.
    pub ratio: Option<(u32, u32)>,
}

impl Planes {
    /// Gives the buffer back if it has grown beyond `keep` bytes.
    pub fn release(&mut self, keep: usize) {
        if self.data.capacity() > keep {
            *self = Planes::default();
        }
    }

    /// Planes of a size; keeps its allocation. Whoever fills them writes every byte: what they hold is another image's.
    pub fn reset(&mut self, size: Size, ratio: Option<(u32, u32)>) {
        (self.width, self.height, self.ratio) = (size.width, size.height, ratio);
        let len = self.layout().last().map_or(0, |(range, _)| range.end);
        self.data.resize(len, 0);
    }

    /// Where each plane is, and its size.
    pub fn layout(&self) -> Vec<(Range<usize>, Size)> {
        let (across, down) = self.ratio.unwrap_or((1, 1));
        let chroma = Size::new(self.width.div_ceil(across), self.height.div_ceil(down));
        let luma = Size::new(chroma.width * across, chroma.height * down);
        let mut planes = vec![luma];
        if self.ratio.is_some() {
            planes.extend([chroma; 2]);
        }
        let mut end = 0;
        let place = |size: Size| {
            let start = end;
            end += size.width as usize * size.height as usize;
            (start..end, size)
        };
        planes.into_iter().map(place).collect()
    }
}

/// The layout that pixels of a JPEG are decoded to.
pub fn layout(color: Color) -> Layout {
    match color {
        Color::Gray => Layout::Gray,
        Color::YCbCr | Color::Rgb => Layout::Rgb,
        Color::Cmyk { .. } => Layout::Cmyk,
    }
}

/// Adobe stores light where others store ink.
#[cfg(feature = "turbojpeg")]
pub fn upright(mut picture: Picture, color: Color) -> Picture {
    if color == (Color::Cmyk { inverted: true }) {
        picture.data.iter_mut().for_each(|value| *value = 255 - *value);
    }
    picture
}

/// Metadata put behind the first segments of a JPEG. An EXIF block too long for its segment is left out.
pub fn with_metadata(jpeg: Vec<u8>, exif: Option<&[u8]>, icc: Option<&[u8]>) -> Vec<u8> {
    const ROOM: usize = 65_533;
    let mut segments = Vec::new();
    if let Some(exif) = exif.filter(|exif| exif.len() + 6 <= ROOM) {
        segment(&mut segments, 0xe1, &[b"Exif\0\0", exif]);
    }
    let parts: Vec<&[u8]> = icc.unwrap_or_default().chunks(ROOM - 14).collect();
    if let Ok(count) = u8::try_from(parts.len()) {
        for (number, part) in (1..=count).zip(parts) {
            segment(&mut segments, 0xe2, &[b"ICC_PROFILE\0", &[number, count], part]);
        }
    }
    if segments.is_empty() {
        return jpeg;
    }
    let at =
        if jpeg.get(2..4) == Some(&[0xff, 0xe0]) { 4 + usize::from(u16::from_be_bytes([jpeg[4], jpeg[5]])) } else { 2 };
    [&jpeg[..at], &segments, &jpeg[at..]].concat()
}

fn segment(out: &mut Vec<u8>, marker: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend([0xff, marker]);
    out.extend(((len + 2) as u16).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markers;

    #[test]
    fn odd_sizes_are_padded_to_whole_chroma_samples() {
        let mut planes = Planes::default();
        planes.reset(Size::new(5, 3), Some((2, 2)));
        let layout = planes.layout();
        assert_eq!(layout[0], (0..24, Size::new(6, 4)));
        assert_eq!(layout[2], (30..36, Size::new(3, 2)));
        planes.reset(Size::new(5, 3), None);
        assert_eq!(planes.data.len(), 15);
    }

    #[test]
    fn metadata_is_read_back() {
        let picture = Picture::new(Size::new(8, 8), Layout::Rgb);
        let settings = Settings { quality: 90, subsampling: Subsampling::Half, progressive: false };
        let jpeg = codec::encode(&picture, &settings).unwrap();
        let icc: Vec<u8> = (0..70_000u32).map(|i| i as u8).collect();
        let read = markers::read(&with_metadata(jpeg, Some(b"II*\0"), Some(&icc))).unwrap();
        assert!(read.whole);
        assert_eq!((read.exif.as_deref(), read.icc), (Some(b"II*\0".as_slice()), Some(icc)));
    }
}
