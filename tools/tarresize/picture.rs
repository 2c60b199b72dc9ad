//! A decoded picture: rows of 8-bit pixels, and what is done to it without a codec.

use crate::size::Size;

/// What the bytes of a pixel mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
    /// 255 is full ink.
    Cmyk,
}

impl Layout {
    pub fn channels(self) -> usize {
        match self {
            Layout::Gray => 1,
            Layout::GrayAlpha => 2,
            Layout::Rgb => 3,
            Layout::Rgba | Layout::Cmyk => 4,
        }
    }

    pub fn has_alpha(self) -> bool {
        matches!(self, Layout::GrayAlpha | Layout::Rgba)
    }
}

/// Pixels, row by row without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub size: Size,
    pub layout: Layout,
    pub data: Vec<u8>,
}

impl Picture {
    /// A black (or empty) picture.
    pub fn new(size: Size, layout: Layout) -> Self {
        let len = size.width as usize * size.height as usize * layout.channels();
        Self { size, layout, data: vec![0; len] }
    }

    /// The picture laid over a colour; no change without alpha. Gray stays gray on a gray colour.
    pub fn flattened(self, background: [u8; 3]) -> Self {
        let gray = background[0] == background[1] && background[1] == background[2];
        match self.layout {
            Layout::GrayAlpha if gray => self.map::<2, 1>(Layout::Gray, |[v, a]| [over(v, background[0], a)]),
            Layout::GrayAlpha => self.map::<2, 3>(Layout::Rgb, |[v, a]| background.map(|b| over(v, b, a))),
            Layout::Rgba => self.map::<4, 3>(Layout::Rgb, |[r, g, b, a]| {
                [over(r, background[0], a), over(g, background[1], a), over(b, background[2], a)]
            }),
            _ => self,
        }
    }

    /// Gray spread to three channels; no change to colour.
    pub fn colored(self) -> Self {
        match self.layout {
            Layout::Gray => self.map::<1, 3>(Layout::Rgb, |[v]| [v; 3]),
            Layout::GrayAlpha => self.map::<2, 4>(Layout::Rgba, |[v, a]| [v, v, v, a]),
            _ => self,
        }
    }

    /// Inks to light, as if inks were ideal; no change to anything else.
    pub fn inked(self) -> Self {
        match self.layout {
            Layout::Cmyk => self.map::<4, 3>(Layout::Rgb, |[c, m, y, k]| [c, m, y].map(|ink| mul(255 - ink, 255 - k))),
            _ => self,
        }
    }

    /// Every pixel changed by a function of its own bytes.
    pub fn map<const FROM: usize, const TO: usize>(self, layout: Layout, f: impl Fn([u8; FROM]) -> [u8; TO]) -> Self {
        let (pixels, _) = self.data.as_chunks::<FROM>();
        let mut data = Vec::with_capacity(pixels.len() * TO);
        pixels.iter().for_each(|&pixel| data.extend_from_slice(&f(pixel)));
        Self { size: self.size, layout, data }
    }

    /// The picture in the middle of a white one, `pad` pixels from its left and top.
    pub fn padded(self, output: Size, (left, top): (u32, u32)) -> Self {
        if output == self.size {
            return self;
        }
        let channels = self.layout.channels();
        let mut padded = Self { data: Vec::new(), size: output, layout: self.layout };
        padded.data = vec![255; output.width as usize * output.height as usize * channels];
        let (stride, row) = (output.width as usize * channels, self.size.width as usize * channels);
        let below = padded.data.chunks_exact_mut(stride).skip(top as usize);
        for (to, from) in below.zip(self.data.chunks_exact(row)) {
            let start = left as usize * channels;
            to[start..start + row].copy_from_slice(from);
        }
        padded
    }
}

fn over(value: u8, background: u8, alpha: u8) -> u8 {
    let sum = u32::from(value) * u32::from(alpha) + u32::from(background) * (255 - u32::from(alpha));
    ((sum + 127) / 255) as u8
}

fn mul(a: u8, b: u8) -> u8 {
    ((u32::from(a) * u32::from(b) + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, layout: Layout, data: &[u8]) -> Picture {
        let height = (data.len() / layout.channels()) as u32 / width;
        Picture { size: Size::new(width, height), layout, data: data.to_vec() }
    }

    #[test]
    fn transparent_shows_the_background() {
        let flat = picture(2, Layout::Rgba, &[9, 9, 9, 0, 10, 20, 30, 255]).flattened([255, 0, 7]);
        assert_eq!((flat.layout, flat.data), (Layout::Rgb, vec![255, 0, 7, 10, 20, 30]));
        let gray = picture(1, Layout::GrayAlpha, &[0, 128]).flattened([255; 3]);
        assert_eq!((gray.layout, gray.data), (Layout::Gray, vec![127]));
    }

    #[test]
    fn ink_takes_light_away() {
        let inks = picture(3, Layout::Cmyk, &[0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 255]).inked();
        assert_eq!(inks.data, [255, 255, 255, 0, 255, 255, 0, 0, 0]);
    }

    #[test]
    fn padding_is_white() {
        let padded = picture(1, Layout::Gray, &[7]).padded(Size::new(2, 3), (0, 1));
        assert_eq!(padded.data, [255, 255, 7, 255, 255, 255]);
    }
}
