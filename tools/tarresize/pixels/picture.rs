//! A decoded picture, and the operations on it that need no codec.

use crate::tarresize::geometry::PixelSize;

/// The meaning of the bytes of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelLayout {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
    /// 255 is full ink.
    Cmyk,
}

impl PixelLayout {
    pub fn channels(self) -> usize {
        match self {
            PixelLayout::Gray => 1,
            PixelLayout::GrayAlpha => 2,
            PixelLayout::Rgb => 3,
            PixelLayout::Rgba | PixelLayout::Cmyk => 4,
        }
    }

    pub fn has_alpha(self) -> bool {
        matches!(self, PixelLayout::GrayAlpha | PixelLayout::Rgba)
    }
}

/// 8-bit pixels, row by row without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub size: PixelSize,
    pub layout: PixelLayout,
    pub data: Vec<u8>,
}

impl Picture {
    /// A picture filled with zeros.
    pub fn new(size: PixelSize, layout: PixelLayout) -> Self {
        let len = size.width as usize * size.height as usize * layout.channels();
        Self { size, layout, data: vec![0; len] }
    }

    /// Flattens transparency onto a colour; opaque pictures stay unchanged. Gray stays gray on a gray background.
    pub fn flatten_onto(self, background: [u8; 3]) -> Self {
        let gray = background[0] == background[1] && background[1] == background[2];
        match self.layout {
            PixelLayout::GrayAlpha if gray => {
                self.map::<2, 1>(PixelLayout::Gray, |[v, a]| [blend(v, background[0], a)])
            }
            PixelLayout::GrayAlpha => self.map::<2, 3>(PixelLayout::Rgb, |[v, a]| background.map(|b| blend(v, b, a))),
            PixelLayout::Rgba => self.map::<4, 3>(PixelLayout::Rgb, |[r, g, b, a]| {
                [blend(r, background[0], a), blend(g, background[1], a), blend(b, background[2], a)]
            }),
            _ => self,
        }
    }

    /// Divides colours by alpha; for pictures that are stored multiplied by it.
    #[cfg(feature = "avif")]
    pub fn unpremultiplied(self) -> Self {
        let divide = |value: u8, alpha: u8| {
            ((u32::from(value) * 255 + u32::from(alpha) / 2) / u32::from(alpha.max(1))).min(255) as u8
        };
        match self.layout {
            PixelLayout::Rgba => {
                self.map::<4, 4>(PixelLayout::Rgba, |[r, g, b, a]| [divide(r, a), divide(g, a), divide(b, a), a])
            }
            _ => self,
        }
    }

    /// Converts gray to RGB; colour stays unchanged.
    pub fn into_rgb(self) -> Self {
        match self.layout {
            PixelLayout::Gray => self.map::<1, 3>(PixelLayout::Rgb, |[v]| [v; 3]),
            PixelLayout::GrayAlpha => self.map::<2, 4>(PixelLayout::Rgba, |[v, a]| [v, v, v, a]),
            _ => self,
        }
    }

    /// Converts CMYK to RGB as if the inks were ideal; other layouts stay unchanged.
    pub fn cmyk_to_rgb(self) -> Self {
        match self.layout {
            PixelLayout::Cmyk => {
                self.map::<4, 3>(PixelLayout::Rgb, |[c, m, y, k]| [c, m, y].map(|ink| multiply(255 - ink, 255 - k)))
            }
            _ => self,
        }
    }

    /// Converts every pixel with a function of its own bytes.
    pub fn map<const FROM: usize, const TO: usize>(
        self,
        layout: PixelLayout,
        f: impl Fn([u8; FROM]) -> [u8; TO],
    ) -> Self {
        let (pixels, _) = self.data.as_chunks::<FROM>();
        // Filled in place, which compilers vectorise; appending checks the capacity for each pixel.
        let mut data = vec![0; pixels.len() * TO];
        data.as_chunks_mut::<TO>().0.iter_mut().zip(pixels).for_each(|(out, &pixel)| *out = f(pixel));
        Self { size: self.size, layout, data }
    }

    /// Places the picture on a white background of size `output`, `left` and `top` pixels from its corner.
    pub fn padded_to(self, output: PixelSize, (left, top): (u32, u32)) -> Self {
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

fn blend(value: u8, background: u8, alpha: u8) -> u8 {
    let sum = u32::from(value) * u32::from(alpha) + u32::from(background) * (255 - u32::from(alpha));
    ((sum + 127) / 255) as u8
}

fn multiply(a: u8, b: u8) -> u8 {
    ((u32::from(a) * u32::from(b) + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: u32, layout: PixelLayout, data: &[u8]) -> Picture {
        let height = (data.len() / layout.channels()) as u32 / width;
        Picture { size: PixelSize::new(width, height), layout, data: data.to_vec() }
    }

    #[test]
    fn transparent_shows_the_background() {
        let flat = picture(2, PixelLayout::Rgba, &[9, 9, 9, 0, 10, 20, 30, 255]).flatten_onto([255, 0, 7]);
        assert_eq!((flat.layout, flat.data), (PixelLayout::Rgb, vec![255, 0, 7, 10, 20, 30]));
        let gray = picture(1, PixelLayout::GrayAlpha, &[0, 128]).flatten_onto([255; 3]);
        assert_eq!((gray.layout, gray.data), (PixelLayout::Gray, vec![127]));
    }

    #[test]
    fn cmyk_is_subtractive() {
        let inks = picture(3, PixelLayout::Cmyk, &[0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 255]).cmyk_to_rgb();
        assert_eq!(inks.data, [255, 255, 255, 0, 255, 255, 0, 0, 0]);
    }

    #[test]
    fn padding_is_white() {
        let padded = picture(1, PixelLayout::Gray, &[7]).padded_to(PixelSize::new(2, 3), (0, 1));
        assert_eq!(padded.data, [255, 255, 7, 255, 255, 255]);
    }
}
