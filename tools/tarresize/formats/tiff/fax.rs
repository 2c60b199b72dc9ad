//! Decodes CCITT fax compression: modified Huffman rows, Group 3 in one and two dimensions, and Group 4. The code tables
//! come from the fax crate, whose own decoders know neither modified Huffman nor two-dimensional Group 3.

use fax::BitReader;
use fax::maps::{Mode, black, mode, white};

use crate::tarresize::formats::tiff::layout::TiffCompression;

/// Decodes up to `rows` rows of `width` pixels into `out`, where black is 1. Returns the number of rows found.
pub fn decode(data: &[u8], compression: TiffCompression, width: u32, rows: usize, out: &mut [u8]) -> usize {
    let mut bits = Bits { data, at: 0 };
    let row_bytes = (width as usize).div_ceil(8);
    let mut changes = Vec::new();
    for (i, row) in out.chunks_exact_mut(row_bytes).take(rows).enumerate() {
        let Some(next) = next_row(&mut bits, compression, &changes, width) else { return i };
        changes = next;
        draw(&changes, width, row);
    }
    rows
}

/// The columns where the colour changes in the next row, starting with white; `None` at the end of the data.
fn next_row(bits: &mut Bits, compression: TiffCompression, above: &[u32], width: u32) -> Option<Vec<u32>> {
    match compression {
        TiffCompression::Group4 => two_dimensional_row(bits, above, width),
        TiffCompression::Group3 { two_dimensional } => {
            let marks = bits.skip_row_ends(two_dimensional);
            // Six marks in succession end the page.
            if marks >= 2 {
                return None;
            }
            let refers = two_dimensional && marks == 1 && !bits.tag_bit()?;
            if refers { two_dimensional_row(bits, above, width) } else { one_dimensional_row(bits, width) }
        }
        _ => {
            bits.align();
            one_dimensional_row(bits, width)
        }
    }
}

fn one_dimensional_row(bits: &mut Bits, width: u32) -> Option<Vec<u32>> {
    let (mut changes, mut at, mut is_black) = (Vec::new(), 0, false);
    while at < width {
        at += run_length(bits, is_black)?;
        changes.push(at.min(width));
        is_black = !is_black;
    }
    Some(changes)
}

fn two_dimensional_row(bits: &mut Bits, above: &[u32], width: u32) -> Option<Vec<u32>> {
    let mut changes: Vec<u32> = Vec::new();
    let (mut at, mut is_black, mut is_start, mut first) = (0u32, false, true, 0usize);
    while at < width {
        // The first change above to the right of here, to the colour that is not the current one.
        first -= first.min(2);
        first += usize::from(first % 2 != usize::from(is_black));
        while above.get(first).is_some_and(|&change| change < at || (change == at && !is_start)) {
            first += 2;
        }
        let change = |i: usize| above.get(i).copied().unwrap_or(width);
        match mode::decode(bits)? {
            Mode::Pass => at = change(first + 1),
            Mode::Vertical(delta) => {
                let next = change(first).checked_add_signed(delta.into())?;
                if next < at {
                    return None;
                }
                changes.push(next.min(width));
                (at, is_black) = (next, !is_black);
            }
            Mode::Horizontal => {
                for color in [is_black, !is_black] {
                    at += run_length(bits, color)?;
                    changes.push(at.min(width));
                }
            }
            Mode::Extension | Mode::EOF => return None,
        }
        is_start = false;
    }
    Some(changes)
}

/// A run: any number of multiples of 64 and one remainder.
fn run_length(bits: &mut Bits, is_black: bool) -> Option<u32> {
    const LONGEST: u32 = 1 << 24;
    let mut sum = 0;
    loop {
        let part = if is_black { black::decode(bits) } else { white::decode(bits) }?;
        sum += u32::from(part);
        if part < 64 {
            return Some(sum);
        }
        if sum > LONGEST {
            return None;
        }
    }
}

/// Sets the bits of black runs.
fn draw(changes: &[u32], width: u32, row: &mut [u8]) {
    let (mut is_black, mut from) = (false, 0);
    for &to in changes.iter().chain([&width]) {
        if is_black {
            (from..to).for_each(|x| row[x as usize / 8] |= 0x80 >> (x % 8));
        }
        (is_black, from) = (!is_black, to);
    }
}

/// Bits of a slice, the highest of each byte first; zeros follow the end.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// Skips end-of-line marks: at least 11 zeros and a one; returns how many. With tag bits, those between two marks
    /// are skipped too.
    fn skip_row_ends(&mut self, has_tags: bool) -> u32 {
        let mut marks = 0;
        loop {
            let start = self.at;
            if has_tags && marks > 0 {
                self.at += 1;
            }
            if self.peek(11) != Some(0) {
                self.at = start;
                return marks;
            }
            while self.peek(1) == Some(0) {
                self.at += 1;
            }
            self.at += 1;
            marks += 1;
        }
    }

    fn tag_bit(&mut self) -> Option<bool> {
        let bit = self.peek(1)?;
        self.at += 1;
        Some(bit == 1)
    }
}

impl BitReader for Bits<'_> {
    type Error = ();

    fn peek(&self, bits: u8) -> Option<u16> {
        let byte = self.at / 8;
        if byte >= self.data.len() {
            return None;
        }
        let window = (0..3).fold(0u32, |sum, i| sum << 8 | u32::from(self.data.get(byte + i).copied().unwrap_or(0)));
        let shift = 24 - self.at as u32 % 8 - u32::from(bits);
        Some((window >> shift & ((1 << bits) - 1)) as u16)
    }

    fn consume(&mut self, bits: u8) -> Result<(), ()> {
        self.at += usize::from(bits);
        Ok(())
    }

    fn bits_to_byte_boundary(&self) -> u8 {
        (self.at.next_multiple_of(8) - self.at) as u8
    }
}
