//! Shrinking by area: each new pixel is the mean of the area it covers, fractions included. Integer arithmetic gives
//! the same bytes on every machine. Rows are averaged first, in a loop of 16-bit multiply-adds that compilers
//! vectorise.

use crate::tarresize::pixels::area_simd::{FixedPointRow, ROW_LEN, SimdScaler};

/// One half in the fixed-point format of the sums: 8 integer bits, 24 fractional bits.
const ROUND: u32 = 1 << 23;

/// The source pixels that one new pixel covers along an axis.
pub struct SourceSpan {
    pub start: usize,
    len: usize,
    /// The index of its first weight in `Axis::weights`.
    first: usize,
}

/// The source pixels and weights of every new pixel along one axis.
pub struct Axis {
    pub spans: Vec<SourceSpan>,
    weights: Vec<u32>,
}

impl Axis {
    /// Spreads `count` new pixels over `length` source pixels from `offset`. The weights of each new pixel add up to
    /// `one`. Coverage beyond the `limit` source pixels goes to the last of them.
    fn new(offset: f64, length: f64, count: usize, limit: usize, one: u32) -> Self {
        let step = length / count as f64;
        let mut axis = Axis { spans: Vec::with_capacity(count), weights: Vec::new() };
        for i in 0..count {
            let from = (offset + step * i as f64).clamp(0.0, limit as f64 - 1e-9);
            let to = (offset + step * (i + 1) as f64).clamp(from + 1e-9, limit as f64);
            let start = from as usize;
            let end = (to.ceil() as usize).clamp(start + 1, limit);
            let first = axis.weights.len();
            let mut given = 0;
            for k in start..end {
                // Rounding the running sum instead of each weight keeps the total exact.
                let covered = ((k + 1) as f64).min(to) - from;
                let sum = if k + 1 == end { one } else { (covered / (to - from) * f64::from(one)).round() as u32 };
                axis.weights.push(sum - given);
                given = sum;
            }
            axis.spans.push(SourceSpan { start, len: end - start, first });
        }
        axis
    }

    pub fn weights(&self, span: &SourceSpan) -> &[u32] {
        &self.weights[span.first..span.first + span.len]
    }

    pub fn max_taps(&self) -> usize {
        self.spans.iter().map(|span| span.len).max().unwrap_or(0)
    }
}

/// The rectangle of the source picture to scale, in fractional pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// Shrinks pictures; reuses its row buffers.
pub struct AreaShrinker {
    row: Vec<u16>,
    fixed_row: Box<FixedPointRow>,
}

impl Default for AreaShrinker {
    fn default() -> Self {
        AreaShrinker { row: Vec::new(), fixed_row: Box::new([0; ROW_LEN]) }
    }
}

impl AreaShrinker {
    /// Scales `rect` of `source` (rows of `width` pixels of `CH` bytes) to `out_width` x `out_height` pixels in `out`.
    pub fn shrink<const CH: usize>(
        &mut self,
        source: &[u8],
        (width, height): (usize, usize),
        rect: Rect,
        out: &mut [u8],
        (out_width, out_height): (usize, usize),
    ) {
        if CH == 1 && SimdScaler::supports(width, rect.width / out_width as f64) {
            return self.shrink_plane(source, (width, height), rect, out, (out_width, out_height));
        }
        let rows = Axis::new(rect.y, rect.height, out_height, height, 1 << 8);
        let columns = Axis::new(rect.x, rect.width, out_width, width, 1 << 16);
        let stride = width * CH;
        self.row.resize(stride, 0);
        let scale_row = row_scaler::<CH>(&columns, width);
        for (span, out_row) in rows.spans.iter().zip(out.chunks_exact_mut(out_width * CH)) {
            let lines = source[span.start * stride..(span.start + span.len) * stride].chunks_exact(stride);
            mean_of_rows(&mut self.row, lines, rows.weights(span));
            scale_row(&self.row, out_row);
        }
    }
}

impl AreaShrinker {
    /// The same for one channel, with a third of the work.
    fn shrink_plane(
        &mut self,
        source: &[u8],
        (width, height): (usize, usize),
        rect: Rect,
        out: &mut [u8],
        (out_width, out_height): (usize, usize),
    ) {
        let rows = Axis::new(rect.y, rect.height, out_height, height, 1 << 8);
        let columns = Axis::new(rect.x, rect.width, out_width, width, SimdScaler::ONE);
        self.row.resize(width, 0);
        let scale_row = SimdScaler::new(&columns, width);
        for (span, out_row) in rows.spans.iter().zip(out.chunks_exact_mut(out_width)) {
            let lines = source[span.start * width..(span.start + span.len) * width].chunks_exact(width);
            mean_of_rows(&mut self.row, lines, rows.weights(span));
            self.fixed_row.iter_mut().zip(&self.row).for_each(|(lane, &value)| *lane = (value >> 1) as i16);
            scale_row.apply(&self.fixed_row, out_row);
        }
    }
}

/// The weighted mean of rows, with 8 integer and 8 fractional bits.
fn mean_of_rows<'a>(row: &mut [u16], lines: impl Iterator<Item = &'a [u8]>, weights: &[u32]) {
    for (i, (line, &weight)) in lines.zip(weights).enumerate() {
        let weight = weight as u16;
        if i == 0 {
            row.iter_mut().zip(line).for_each(|(sum, &value)| *sum = u16::from(value).wrapping_mul(weight));
        } else {
            row.iter_mut().zip(line).for_each(|(sum, &value)| {
                *sum = sum.wrapping_add(u16::from(value).wrapping_mul(weight));
            });
        }
    }
}

/// Scales one row to its new width.
type RowScaler<'a> = Box<dyn Fn(&[u16], &mut [u8]) + 'a>;

/// Chooses how to scale a row: without branches if each new pixel covers few source pixels.
fn row_scaler<const CH: usize>(columns: &Axis, width: usize) -> RowScaler<'_> {
    match columns.max_taps() {
        taps if taps > width.min(6) => Box::new(|row, out| any_taps::<CH>(row, columns, out)),
        0..=2 if width >= 2 => fixed_taps::<CH, 2>(columns, width),
        3 => fixed_taps::<CH, 3>(columns, width),
        4 => fixed_taps::<CH, 4>(columns, width),
        5 => fixed_taps::<CH, 5>(columns, width),
        6 => fixed_taps::<CH, 6>(columns, width),
        _ => Box::new(|row, out| any_taps::<CH>(row, columns, out)),
    }
}

/// Pads every span to `TAPS` pixels, shifted left at the right edge, with weights of zero.
fn fixed_taps<'a, const CH: usize, const TAPS: usize>(columns: &Axis, width: usize) -> RowScaler<'a> {
    let pad = |span: &SourceSpan| {
        let start = span.start.min(width - TAPS);
        let mut taps = [0; TAPS];
        for (tap, &weight) in taps[span.start - start..].iter_mut().zip(columns.weights(span)) {
            *tap = weight;
        }
        (start, taps)
    };
    let padded: Vec<(usize, [u32; TAPS])> = columns.spans.iter().map(pad).collect();
    Box::new(move |row, out| {
        for ((start, taps), pixel) in padded.iter().zip(out.chunks_exact_mut(CH)) {
            let window = &row[start * CH..(start + TAPS) * CH];
            for c in 0..CH {
                let mut sum = ROUND;
                for t in 0..TAPS {
                    sum = sum.wrapping_add(u32::from(window[t * CH + c]).wrapping_mul(taps[t]));
                }
                pixel[c] = (sum >> 24) as u8;
            }
        }
    })
}

/// Scales one row, for any number of covered pixels.
fn any_taps<const CH: usize>(row: &[u16], columns: &Axis, out: &mut [u8]) {
    for (span, pixel) in columns.spans.iter().zip(out.chunks_exact_mut(CH)) {
        let mut sums = [ROUND; CH];
        let window = row[span.start * CH..(span.start + span.len) * CH].chunks_exact(CH);
        for (values, &weight) in window.zip(columns.weights(span)) {
            for c in 0..CH {
                sums[c] = sums[c].wrapping_add(u32::from(values[c]).wrapping_mul(weight));
            }
        }
        for c in 0..CH {
            pixel[c] = (sums[c] >> 24) as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(width: usize, height: usize) -> Rect {
        Rect { x: 0.0, y: 0.0, width: width as f64, height: height as f64 }
    }

    fn shrink(source: &[u8], size: (usize, usize), rect: Rect, out_size: (usize, usize)) -> Vec<u8> {
        let mut out = vec![0; out_size.0 * out_size.1];
        AreaShrinker::default().shrink::<1>(source, size, rect, &mut out, out_size);
        out
    }

    #[test]
    fn a_flat_picture_stays_flat() {
        for value in [0, 1, 127, 128, 254, 255] {
            for out in [(1, 1), (3, 2), (17, 11), (36, 30)] {
                let made = shrink(&vec![value; 37 * 31], (37, 31), whole(37, 31), out);
                assert!(made.iter().all(|&v| v == value), "{value} at {out:?}: {made:?}");
            }
        }
    }

    #[test]
    fn fractions_count_by_their_share() {
        assert_eq!(shrink(&[0, 90, 240], (3, 1), whole(3, 1), (2, 1)), [30, 190]);
        assert_eq!(shrink(&[0, 90, 240], (1, 3), whole(1, 3), (1, 2)), [30, 190]);
    }

    #[test]
    fn every_pixel_matches_a_float_mean() {
        let (width, height) = (61, 47);
        let source: Vec<u8> = (0..width * height).map(|i| ((i * 7919) % 251) as u8).collect();
        for (out_width, out_height) in [(60, 46), (30, 20), (13, 9), (5, 4), (2, 1)] {
            let made = shrink(&source, (width, height), whole(width, height), (out_width, out_height));
            for (i, &value) in made.iter().enumerate() {
                let mean = float_mean(&source, (width, height), (out_width, out_height), i % out_width, i / out_width);
                assert!(
                    (f64::from(value) - mean).abs() <= 1.6,
                    "{out_width}x{out_height} at {i}: {value} is not {mean}"
                );
            }
        }
    }

    fn float_mean(source: &[u8], (w, h): (usize, usize), (ow, oh): (usize, usize), x: usize, y: usize) -> f64 {
        let share = |k: usize, i: usize, n: usize, m: usize| {
            let (from, to) = (i as f64 * n as f64 / m as f64, (i + 1) as f64 * n as f64 / m as f64);
            ((k as f64 + 1.0).min(to) - (k as f64).max(from)).max(0.0) / (to - from)
        };
        let cell = |k: usize| f64::from(source[k]) * share(k % w, x, w, ow) * share(k / w, y, h, oh);
        (0..w * h).map(cell).sum()
    }

    #[test]
    fn a_rectangle_beyond_the_edge_repeats_it() {
        let rect = Rect { x: 1.0, y: 0.0, width: 4.0, height: 1.0 };
        assert_eq!(shrink(&[10, 20, 30], (3, 1), rect, (4, 1)), [20, 30, 30, 30]);
    }

    #[test]
    fn channels_do_not_mix() {
        let mut out = [0; 3];
        AreaShrinker::default().shrink::<3>(&[10, 20, 30, 20, 40, 60], (2, 1), whole(2, 1), &mut out, (1, 1));
        assert_eq!(out, [15, 30, 45]);
    }
}
