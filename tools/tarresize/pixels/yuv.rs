//! Converts YUV planes of any depth, subsampling, matrix and range to RGB: what AVIF and TIFF contain.

#![cfg_attr(not(feature = "avif"), allow(dead_code, reason = "only AVIF has planes"))]

use crate::tarresize::geometry::PixelSize;

/// Full-range YCbCr of BT.601, as in JPEG, to RGB.
pub fn full_range_to_rgb([y, cb, cr]: [u8; 3]) -> [u8; 3] {
    YuvMatrix::new(6, true, 8).to_rgb([y.into(), cb.into(), cr.into()])
}

/// How YUV samples become RGB, in fixed-point arithmetic: the same bytes on every machine.
#[derive(Clone, Copy, Debug)]
pub struct YuvMatrix {
    kind: MatrixKind,
    /// Black, and the middle of the chroma samples.
    zero: (i64, i64),
    /// Scales luma and chroma to 0..=255 and -127..=128, with `FRACTION` bits.
    luma: i64,
    chroma: i64,
}

#[derive(Clone, Copy, Debug)]
enum MatrixKind {
    /// The planes are green, blue and red.
    Identity,
    /// The weights of red and blue in luma, with `FRACTION` bits.
    Weights(i64, i64),
}

const FRACTION: u32 = 20;
const ONE: i64 = 1 << FRACTION;

impl YuvMatrix {
    /// The matrix of this number in ITU-T H.273; unspecified and unknown ones are BT.601.
    pub fn new(number: u16, is_full_range: bool, bits: u32) -> Self {
        let weights = |red: f64, blue: f64| {
            let fixed = |weight: f64| (weight * ONE as f64).round() as i64;
            MatrixKind::Weights(fixed(red), fixed(blue))
        };
        let kind = match number {
            0 => MatrixKind::Identity,
            1 => weights(0.2126, 0.0722),
            4 => weights(0.30, 0.11),
            7 => weights(0.212, 0.087),
            9 | 10 => weights(0.2627, 0.0593),
            _ => weights(0.299, 0.114),
        };
        let max = (1i64 << bits) - 1;
        let unit = 1i64 << (bits - 8);
        let (black, luma_range, chroma_range) =
            if is_full_range { (0, max, max) } else { (16 * unit, 219 * unit, 224 * unit) };
        YuvMatrix {
            kind,
            zero: (black, 1 << (bits - 1)),
            luma: 255 * ONE / luma_range,
            chroma: 255 * ONE / chroma_range,
        }
    }

    /// Converts one pixel.
    pub fn to_rgb(self, [y, u, v]: [u16; 3]) -> [u8; 3] {
        let round = |value: i64| ((value + ONE / 2) >> FRACTION).clamp(0, 255) as u8;
        let luma = |value: u16| (i64::from(value) - self.zero.0) * self.luma;
        let MatrixKind::Weights(red, blue) = self.kind else {
            return [round(luma(v)), round(luma(y)), round(luma(u))];
        };
        let chroma = |value: u16| (i64::from(value) - self.zero.1) * self.chroma;
        let (y, cb, cr) = (luma(y), chroma(u), chroma(v));
        let times = |weight: i64, value: i64| (weight * (value >> 4)) >> (FRACTION - 4);
        let (r, b) = (y + times(2 * (ONE - red), cr), y + times(2 * (ONE - blue), cb));
        let green = ONE - red - blue;
        // From luma = red * R + green * G + blue * B.
        let g = y
            - (times(2 * (ONE - red), cr) >> 4) * red / (green >> 4)
            - (times(2 * (ONE - blue), cb) >> 4) * blue / (green >> 4);
        [round(r), round(g), round(b)]
    }
}

/// A plane of samples of one or two bytes, in the byte order of the machine.
#[derive(Clone, Copy)]
pub struct Plane<'a> {
    pub data: &'a [u8],
    /// Bytes from row to row.
    pub stride: usize,
    pub is_wide: bool,
}

impl Plane<'_> {
    /// Reads `count` samples of row `y`.
    pub fn row(&self, y: usize, count: usize, out: &mut Vec<u16>) {
        out.clear();
        if self.is_wide {
            let row = &self.data[y * self.stride..][..count * 2];
            out.extend(row.as_chunks::<2>().0.iter().map(|pair| u16::from_ne_bytes(*pair)));
        } else {
            out.extend(self.data[y * self.stride..][..count].iter().map(|&value| u16::from(value)));
        }
    }
}

/// Interpolates a row of chroma of a picture of this size: samples lie in the middle of the pixels they cover.
pub fn chroma_row(plane: &Plane, size: PixelSize, (across, down): (u32, u32), y: usize, out: &mut Vec<u16>) {
    let (width, height) = (size.width.div_ceil(across) as usize, size.height.div_ceil(down) as usize);
    let mut near = Vec::with_capacity(width);
    plane.row(y / down as usize, width, &mut near);
    if down == 2 {
        let other = if y.is_multiple_of(2) { (y / 2).saturating_sub(1) } else { (y / 2 + 1).min(height - 1) };
        let mut far = Vec::with_capacity(width);
        plane.row(other, width, &mut far);
        near.iter_mut().zip(far).for_each(|(near, far)| *near = blend(*near, far));
    }
    out.clear();
    if across == 1 {
        out.extend_from_slice(&near);
        return;
    }
    for x in 0..size.width as usize {
        let other = if x.is_multiple_of(2) { (x / 2).saturating_sub(1) } else { (x / 2 + 1).min(width - 1) };
        out.push(blend(near[x / 2], near[other]));
    }
}

/// Three quarters of the near sample and one of the far one.
fn blend(near: u16, far: u16) -> u16 {
    ((u32::from(near) * 3 + u32::from(far) + 2) / 4) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_match_the_standards() {
        assert_eq!(full_range_to_rgb([255, 128, 128]), [255; 3]);
        assert_eq!(full_range_to_rgb([76, 85, 255]), [254, 0, 0]);
        assert_eq!(full_range_to_rgb([149, 43, 21]), [0, 255, 0]);
        let limited = YuvMatrix::new(1, false, 10);
        assert_eq!([limited.to_rgb([64, 512, 512]), limited.to_rgb([940, 512, 512])], [[0; 3], [255; 3]]);
        assert_eq!(YuvMatrix::new(0, true, 8).to_rgb([1, 2, 3]), [3, 1, 2]);
    }

    #[test]
    fn chroma_is_interpolated_between_samples() {
        let plane = Plane { data: &[0, 100, 40, 140], stride: 2, is_wide: false };
        let mut row = Vec::new();
        chroma_row(&plane, PixelSize::new(3, 3), (2, 2), 0, &mut row);
        assert_eq!(row, [0, 25, 75]);
        chroma_row(&plane, PixelSize::new(3, 3), (2, 2), 1, &mut row);
        assert_eq!(row, [10, 35, 85]);
    }
}
