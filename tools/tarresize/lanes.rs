//! Sums of weighted pixels along a row, eight products in one instruction.

use wide::i16x8;

use crate::area::{Axis, Span};

/// Numbers of 16 bits that are multiplied at once.
const LANES: usize = 8;

/// A half in the fixed point of the sums: 7 bits of the row and 14 of the weights after the point.
const HALF: i32 = 1 << 20;

/// The windows of new pixels, and their weights by lane.
pub enum Lanes {
    /// Two pixels of up to four taps each.
    Pairs(Vec<([usize; 2], i16x8)>),
    /// One pixel of up to eight.
    Singles(Vec<(usize, i16x8)>),
}

impl Lanes {
    /// What the weights of a pixel sum to.
    pub const ONE: u32 = 1 << 14;

    /// Whether rows of `width` pixels can be summed here when a new pixel covers `step` of them.
    pub fn can_hold(width: usize, step: f64) -> bool {
        width >= LANES && step <= (LANES - 1) as f64
    }

    pub fn new(columns: &Axis, width: usize) -> Self {
        if columns.longest() <= LANES / 2 { Lanes::pairs(columns, width) } else { Lanes::singles(columns, width) }
    }

    fn pairs(columns: &Axis, width: usize) -> Self {
        let windows: Vec<(usize, [i16; 4])> = columns.spans.iter().map(|span| window(columns, span, width)).collect();
        let pair = |pair: &[(usize, [i16; 4])]| {
            let (first, last) = (pair[0], pair[pair.len() - 1]);
            ([first.0, last.0], joined(&first.1, &last.1))
        };
        Lanes::Pairs(windows.chunks(2).map(pair).collect())
    }

    fn singles(columns: &Axis, width: usize) -> Self {
        let single = |span| {
            let (start, weights) = window(columns, span, width);
            (start, i16x8::new(weights))
        };
        Lanes::Singles(columns.spans.iter().map(single).collect())
    }

    /// One row to its new width.
    pub fn apply(&self, row: &[i16], out: &mut [u8]) {
        match self {
            Lanes::Pairs(pairs) => {
                for (([first, second], weights), pixels) in pairs.iter().zip(out.chunks_mut(2)) {
                    let values = joined(&row[*first..first + 4], &row[*second..second + 4]);
                    let [a, b, c, d] = values.dot(*weights).to_array();
                    pixels[0] = ((a + b + HALF) >> 21) as u8;
                    if let Some(pixel) = pixels.get_mut(1) {
                        *pixel = ((c + d + HALF) >> 21) as u8;
                    }
                }
            }
            Lanes::Singles(singles) => {
                for ((start, weights), pixel) in singles.iter().zip(out) {
                    let mut values = [0; LANES];
                    values.copy_from_slice(&row[*start..start + LANES]);
                    let [a, b, c, d] = i16x8::new(values).dot(*weights).to_array();
                    *pixel = ((a + b + c + d + HALF) >> 21) as u8;
                }
            }
        }
    }
}

/// A window made `TAPS` wide, moved inwards at the right edge, its weights filled up with zeros.
fn window<const TAPS: usize>(columns: &Axis, span: &Span, width: usize) -> (usize, [i16; TAPS]) {
    let start = span.start.min(width - TAPS);
    let mut taps = [0; TAPS];
    for (tap, &weight) in taps[span.start - start..].iter_mut().zip(columns.weights(span)) {
        *tap = weight as i16;
    }
    (start, taps)
}

fn joined(first: &[i16], second: &[i16]) -> i16x8 {
    let mut both = [0; LANES];
    both[..4].copy_from_slice(first);
    both[4..].copy_from_slice(second);
    i16x8::new(both)
}
