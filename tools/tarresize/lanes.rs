//! Sums of weighted pixels along a row, eight products in one instruction and eight new pixels a turn.

use wide::{i16x8, i32x4, i32x8, u8x16};

use crate::area::{Axis, Span};

/// Numbers of 16 bits that are multiplied at once, and new pixels that are made in one turn.
const LANES: usize = 8;

/// Pixels of a row, 7 bits after the point: as long as a start of 16 bits may need, so that no access
/// in the loop has to be checked.
pub type Row = [i16; ROW];

/// The length of a [`Row`].
pub const ROW: usize = (1 << 16) + LANES;

/// A half in the fixed point of the sums: 7 bits of the row and 14 of the weights after the point.
const HALF: i32 = 1 << 20;

/// The windows of new pixels, eight in a group, and their weights by lane.
pub enum Lanes {
    /// Up to four taps a pixel: two pixels share a multiplication.
    Short(Vec<Group<4>>),
    /// Up to eight.
    Long(Vec<Group<8>>),
}

pub struct Group<const N: usize> {
    starts: [u16; LANES],
    weights: [i16x8; N],
}

impl Lanes {
    /// What the weights of a pixel sum to.
    pub const ONE: u32 = 1 << 14;

    /// Whether rows of `width` pixels can be summed here when a new pixel covers `step` of them.
    pub fn can_hold(width: usize, step: f64) -> bool {
        (LANES..=1 << 16).contains(&width) && step <= (LANES - 1) as f64
    }

    pub fn new(columns: &Axis, width: usize) -> Self {
        let groups = columns.spans.chunks(LANES);
        if columns.longest() > LANES / 2 {
            return Lanes::Long(groups.map(|spans| long(columns, spans, width)).collect());
        }
        Lanes::Short(groups.map(|spans| short(columns, spans, width)).collect())
    }

    /// One row to its new width.
    pub fn apply(&self, row: &Row, out: &mut [u8]) {
        match self {
            Lanes::Short(groups) => {
                let four = |group: &Group<4>, at: usize| {
                    let [a, b, c, d] = [0, 1, 2, 3].map(|i| group.starts[at + i]);
                    let ab = pair(row, a, b).dot(group.weights[at / 2]);
                    fold(ab, pair(row, c, d).dot(group.weights[at / 2 + 1]))
                };
                each(groups, out, |group| [four(group, 0), four(group, 4)]);
            }
            Lanes::Long(groups) => {
                let four = |group: &Group<8>, at: usize| {
                    let [a, b, c, d] =
                        [0, 1, 2, 3].map(|i| window(row, group.starts[at + i]).dot(group.weights[at + i]));
                    fold(fold(a, b), fold(c, d))
                };
                each(groups, out, |group| [four(group, 0), four(group, 4)]);
            }
        }
    }
}

/// Writes the eight pixels of every group; of the last, those that there are.
fn each<const N: usize>(groups: &[Group<N>], out: &mut [u8], sums: impl Fn(&Group<N>) -> [i32x4; 2]) {
    let (whole, rest) = out.as_chunks_mut::<LANES>();
    for (group, pixels) in groups.iter().zip(&mut *whole) {
        *pixels = bytes(sums(group));
    }
    if let Some(group) = groups.get(whole.len()) {
        rest.copy_from_slice(&bytes(sums(group))[..rest.len()]);
    }
}

fn bytes([first, second]: [i32x4; 2]) -> [u8; LANES] {
    let rounded = [first, second].map(|sum| ((sum + i32x4::splat(HALF)) >> 21_i32).to_array());
    let [[a, b, c, d], [e, f, g, h]] = rounded;
    let words = i16x8::from_i32x8_saturate(i32x8::new([a, b, c, d, e, f, g, h]));
    let [a, b, c, d, e, f, g, h, ..] = u8x16::narrow_i16x8(words, words).to_array();
    [a, b, c, d, e, f, g, h]
}

/// The sums of neighbours: those of `a`, then those of `b`.
fn fold(a: i32x4, b: i32x4) -> i32x4 {
    let (a, b): ([i32; 4], [i32; 4]) = (a.to_array(), b.to_array());
    i32x4::new([a[0], a[2], b[0], b[2]]) + i32x4::new([a[1], a[3], b[1], b[3]])
}

fn pair(row: &Row, first: u16, second: u16) -> i16x8 {
    let (first, second) = (usize::from(first), usize::from(second));
    let mut both = [0; LANES];
    both[..4].copy_from_slice(&row[first..first + 4]);
    both[4..].copy_from_slice(&row[second..second + 4]);
    i16x8::new(both)
}

fn window(row: &Row, start: u16) -> i16x8 {
    let start = usize::from(start);
    let mut values = [0; LANES];
    values.copy_from_slice(&row[start..start + LANES]);
    i16x8::new(values)
}

fn short(columns: &Axis, spans: &[Span], width: usize) -> Group<4> {
    let padded = padded::<4>(columns, spans, width);
    let pair = |i: usize| {
        let ([a, b, c, d], [e, f, g, h]) = (padded[2 * i].1, padded[2 * i + 1].1);
        i16x8::new([a, b, c, d, e, f, g, h])
    };
    Group { starts: padded.map(|(start, _)| start), weights: [0, 1, 2, 3].map(pair) }
}

fn long(columns: &Axis, spans: &[Span], width: usize) -> Group<8> {
    let padded = padded::<8>(columns, spans, width);
    Group { starts: padded.map(|(start, _)| start), weights: padded.map(|(_, weights)| i16x8::new(weights)) }
}

/// Windows made `TAPS` wide, moved inwards at the right edge, their weights filled up with zeros; after
/// the last span, windows that weigh nothing.
fn padded<const TAPS: usize>(columns: &Axis, spans: &[Span], width: usize) -> [(u16, [i16; TAPS]); LANES] {
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
