//! Scales rows of one channel with SIMD: eight multiplications per instruction, eight new pixels per iteration.

use wide::{i16x8, i32x4, i32x8, u8x16};

use crate::tarresize::pixels::area_filter::{Axis, SourceSpan};

/// Multiplications per instruction, and new pixels per iteration.
const LANES: usize = 8;

/// A row of pixels with 7 fractional bits. Its length covers every 16-bit start index, so that the compiler can omit
/// bounds checks in the loop.
pub type FixedPointRow = [i16; ROW_LEN];

/// The length of a [`FixedPointRow`].
pub const ROW_LEN: usize = (1 << 16) + LANES;

/// One half in the fixed-point format of the sums: 7 fractional bits of the row and 14 of the weights.
const ROUND: i32 = 1 << 20;

/// The start and the weights of every new pixel, in groups of eight.
pub enum SimdScaler {
    /// Up to four taps per pixel: two pixels share a multiplication.
    FourTaps(Vec<TapGroup<4>>),
    /// Up to eight taps per pixel.
    EightTaps(Vec<TapGroup<8>>),
}

pub struct TapGroup<const N: usize> {
    starts: [u16; LANES],
    weights: [i16x8; N],
}

impl SimdScaler {
    /// The sum of the weights of one pixel.
    pub const ONE: u32 = 1 << 14;

    /// Whether rows of `width` pixels can be scaled here if a new pixel covers `step` source pixels.
    pub fn supports(width: usize, step: f64) -> bool {
        (LANES..=1 << 16).contains(&width) && step <= (LANES - 1) as f64
    }

    pub fn new(columns: &Axis, width: usize) -> Self {
        let groups = columns.spans.chunks(LANES);
        if columns.max_taps() > LANES / 2 {
            return SimdScaler::EightTaps(groups.map(|spans| group_of_eight_taps(columns, spans, width)).collect());
        }
        SimdScaler::FourTaps(groups.map(|spans| group_of_four_taps(columns, spans, width)).collect())
    }

    /// Scales one row.
    pub fn apply(&self, row: &FixedPointRow, out: &mut [u8]) {
        match self {
            SimdScaler::FourTaps(groups) => {
                let four = |group: &TapGroup<4>, at: usize| {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|i| group.starts[at + i]);
                    let ab = load_pair(row, a, b).dot(group.weights[at / 2]);
                    add_neighbours(ab, load_pair(row, c, d).dot(group.weights[at / 2 + 1]))
                };
                write_groups(groups, out, |group| [four(group, 0), four(group, 4)]);
            }
            SimdScaler::EightTaps(groups) => {
                let four = |group: &TapGroup<8>, at: usize| {
                    let [a, b, c, d] =
                        [0, 1, 2, 3].map(|i| load_window(row, group.starts[at + i]).dot(group.weights[at + i]));
                    add_neighbours(add_neighbours(a, b), add_neighbours(c, d))
                };
                write_groups(groups, out, |group| [four(group, 0), four(group, 4)]);
            }
        }
    }
}

/// Writes the eight pixels of each group; the last group may be incomplete.
fn write_groups<const N: usize>(groups: &[TapGroup<N>], out: &mut [u8], sums: impl Fn(&TapGroup<N>) -> [i32x4; 2]) {
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    for (group, pixels) in groups.iter().zip(&mut *whole) {
        *pixels = round_to_bytes(sums(group));
    }
    if let Some(group) = groups.get(whole.len()) {
        rest.copy_from_slice(&round_to_bytes(sums(group))[..rest.len()]);
    }
}

fn round_to_bytes([first, second]: [i32x4; 2]) -> [u8; LANES] {
    let rounded = [first, second].map(|sum| ((sum + i32x4::splat(ROUND)) >> 21_i32).to_array());
    let [[a, b, c, d], [e, f, g, h]] = rounded;
    let words = i16x8::from_i32x8_saturate(i32x8::new([a, b, c, d, e, f, g, h]));
    let [a, b, c, d, e, f, g, h, ..] = u8x16::narrow_i16x8(words, words).to_array();
    [a, b, c, d, e, f, g, h]
}

/// Adds neighbours: first those of `a`, then those of `b`.
fn add_neighbours(a: i32x4, b: i32x4) -> i32x4 {
    let (a, b): ([i32; 4], [i32; 4]) = (a.to_array(), b.to_array());
    i32x4::new([a[0], a[2], b[0], b[2]]) + i32x4::new([a[1], a[3], b[1], b[3]])
}

fn load_pair(row: &FixedPointRow, first: u16, second: u16) -> i16x8 {
    let (first, second) = (usize::from(first), usize::from(second));
    let mut both = [0; LANES];
    both[..4].copy_from_slice(&row[first..first + 4]);
    both[4..].copy_from_slice(&row[second..second + 4]);
    i16x8::new(both)
}

fn load_window(row: &FixedPointRow, start: u16) -> i16x8 {
    let start = usize::from(start);
    let mut values = [0; LANES];
    values.copy_from_slice(&row[start..start + LANES]);
    i16x8::new(values)
}

fn group_of_four_taps(columns: &Axis, spans: &[SourceSpan], width: usize) -> TapGroup<4> {
    let padded = padded::<4>(columns, spans, width);
    let pair = |i: usize| {
        let ([a, b, c, d], [e, f, g, h]) = (padded[2 * i].1, padded[2 * i + 1].1);
        i16x8::new([a, b, c, d, e, f, g, h])
    };
    TapGroup { starts: padded.map(|(start, _)| start), weights: [0, 1, 2, 3].map(pair) }
}

fn group_of_eight_taps(columns: &Axis, spans: &[SourceSpan], width: usize) -> TapGroup<8> {
    let padded = padded::<8>(columns, spans, width);
    TapGroup { starts: padded.map(|(start, _)| start), weights: padded.map(|(_, weights)| i16x8::new(weights)) }
}

/// Pads every span to `TAPS` pixels, shifted left at the right edge, with weights of zero. Missing spans get weights of
/// zero only.
fn padded<const TAPS: usize>(columns: &Axis, spans: &[SourceSpan], width: usize) -> [(u16, [i16; TAPS]); LANES] {
    std::array::from_fn(|i| {
        let mut taps = [0; TAPS];
        let Some(span) = spans.get(i) else { return (0, taps) };
        let start = span.start.min(width - TAPS);
        for (tap, &weight) in taps[span.start - start..].iter_mut().zip(columns.weights(span)) {
            *tap = weight as i16;
        }
        (start as u16, taps)
    })
}
