//! Shrinking by area: each new pixel is the mean of the surface it covers, fractions included.
//! Whole numbers only, so that every machine gives the same bytes; rows first, where the inner loop
//! is a multiply-add over 16-bit lanes that compilers vectorise for any processor.

use crate::lanes::{Lanes, ROW, Row};

/// A half in the fixed point of sums: 8 bits before the point, 24 after.
const HALF: u32 = 1 << 23;

/// The pixels that one new pixel covers along an axis, and by how much.
pub struct Span {
    pub start: usize,
    len: usize,
    /// Where its weights begin in the list of all.
    first: usize,
}

/// The coverage of every new pixel along one axis.
pub struct Axis {
    pub spans: Vec<Span>,
    weights: Vec<u32>,
}

impl Axis {
    /// `count` pixels over `length` source pixels from `offset`; weights of a pixel sum to `one`. What lies
    /// beyond the `limit` source pixels counts as the last of them.
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
                // Rounding the running sum, not each weight, keeps the total exact.
                let covered = ((k + 1) as f64).min(to) - from;
                let sum = if k + 1 == end { one } else { (covered / (to - from) * f64::from(one)).round() as u32 };
                axis.weights.push(sum - given);
                given = sum;
            }
            axis.spans.push(Span { start, len: end - start, first });
        }
        axis
    }

    pub fn weights(&self, span: &Span) -> &[u32] {
        &self.weights[span.first..span.first + span.len]
    }

    pub fn longest(&self) -> usize {
        self.spans.iter().map(|span| span.len).max().unwrap_or(0)
    }
}

/// The part of a picture that is scaled, in pixels and their fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// Buffers that outlive one picture.
pub struct Area {
    row: Vec<u16>,
    lanes: Box<Row>,
}

impl Default for Area {
    fn default() -> Self {
        Area { row: Vec::new(), lanes: Box::new([0; ROW]) }
    }
}

impl Area {
    /// Writes the `rect` of `source` (rows of `width` pixels, `CH` bytes each) into `out` at `out_width` x `out_height`.
    pub fn shrink<const CH: usize>(
        &mut self,
        source: &[u8],
        (width, height): (usize, usize),
        rect: Rect,
        out: &mut [u8],
        (out_width, out_height): (usize, usize),
    ) {
        if CH == 1 && Lanes::can_hold(width, rect.width / out_width as f64) {
            return self.shrink_plane(source, (width, height), rect, out, (out_width, out_height));
        }
        let rows = Axis::new(rect.y, rect.height, out_height, height, 1 << 8);
        let columns = Axis::new(rect.x, rect.width, out_width, width, 1 << 16);
        let stride = width * CH;
        self.row.resize(stride, 0);
        let across = across::<CH>(&columns, width);
        for (span, out_row) in rows.spans.iter().zip(out.chunks_exact_mut(out_width * CH)) {
            let lines = source[span.start * stride..(span.start + span.len) * stride].chunks_exact(stride);
            mean_of_rows(&mut self.row, lines, rows.weights(span));
            across(&self.row, out_row);
        }
    }
}

impl Area {
    /// The same for a plane of one channel: a third of the work of the general way.
    fn shrink_plane(
        &mut self,
        source: &[u8],
        (width, height): (usize, usize),
        rect: Rect,
        out: &mut [u8],
        (out_width, out_height): (usize, usize),
    ) {
        let rows = Axis::new(rect.y, rect.height, out_height, height, 1 << 8);
        let columns = Axis::new(rect.x, rect.width, out_width, width, Lanes::ONE);
        self.row.resize(width, 0);
        let across = Lanes::new(&columns, width);
        for (span, out_row) in rows.spans.iter().zip(out.chunks_exact_mut(out_width)) {
            let lines = source[span.start * width..(span.start + span.len) * width].chunks_exact(width);
            mean_of_rows(&mut self.row, lines, rows.weights(span));
            self.lanes.iter_mut().zip(&self.row).for_each(|(lane, &value)| *lane = (value >> 1) as i16);
            across.apply(&self.lanes, out_row);
        }
    }
}

/// The weighted mean of rows, 8 bits before and 8 after the point.
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

/// Gives one row its new width.
type Across<'a> = Box<dyn Fn(&[u16], &mut [u8]) + 'a>;

/// How one row gets its new width: a loop without branches where pixels cover few others.
fn across<const CH: usize>(columns: &Axis, width: usize) -> Across<'_> {
    match columns.longest() {
        taps if taps > width.min(6) => Box::new(|row, out| any_taps::<CH>(row, columns, out)),
        0..=2 if width >= 2 => fixed_taps::<CH, 2>(columns, width),
        3 => fixed_taps::<CH, 3>(columns, width),
        4 => fixed_taps::<CH, 4>(columns, width),
        5 => fixed_taps::<CH, 5>(columns, width),
        6 => fixed_taps::<CH, 6>(columns, width),
        _ => Box::new(|row, out| any_taps::<CH>(row, columns, out)),
    }
}

/// Every window made `TAPS` wide, moved inwards at the right edge, its weights filled up with zeros.
fn fixed_taps<'a, const CH: usize, const TAPS: usize>(columns: &Axis, width: usize) -> Across<'a> {
    let pad = |span: &Span| {
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
                let mut sum = HALF;
                for t in 0..TAPS {
                    sum = sum.wrapping_add(u32::from(window[t * CH + c]).wrapping_mul(taps[t]));
                }
                pixel[c] = (sum >> 24) as u8;
            }
        }
    })
}

/// One row to its new width, whatever its pixels cover.
fn any_taps<const CH: usize>(row: &[u16], columns: &Axis, out: &mut [u8]) {
    for (span, pixel) in columns.spans.iter().zip(out.chunks_exact_mut(CH)) {
        let mut sums = [HALF; CH];
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
        Area::default().shrink::<1>(source, size, rect, &mut out, out_size);
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
        Area::default().shrink::<3>(&[10, 20, 30, 20, 40, 60], (2, 1), whole(2, 1), &mut out, (1, 1));
        assert_eq!(out, [15, 30, 45]);
    }
}
