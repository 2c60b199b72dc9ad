//! Turns the decompressed bytes of a TIFF chunk into one byte per sample: undoes predictors, unpacks bits and scales.

use crate::tarresize::formats::tiff::directory::number;
use crate::tarresize::formats::tiff::layout::{Photometric, SampleKind, TiffLayout};

/// Unpacks one row of a chunk. `row` is changed where a predictor is undone.
pub fn unpack_row(layout: &TiffLayout, row: &mut [u8], out: &mut [u8]) {
    let step = layout.samples_per_chunk();
    match (layout.bits, layout.kind, layout.predictor) {
        (8, SampleKind::Unsigned, 1) => out.copy_from_slice(&row[..out.len()]),
        (8, SampleKind::Unsigned, 2) => {
            (step..out.len()).for_each(|i| row[i] = row[i].wrapping_add(row[i - step]));
            out.copy_from_slice(&row[..out.len()]);
        }
        (_, SampleKind::Float, 3) => {
            let values = undo_float_predictor(row, layout.bits, step);
            out.iter_mut().zip(values).for_each(|(out, value)| *out = scaled(layout, value));
        }
        _ => unpack_numbers(layout, row, out, step),
    }
}

/// Unpacks samples of any size.
fn unpack_numbers(layout: &TiffLayout, row: &[u8], out: &mut [u8], step: usize) {
    let mask = u64::MAX >> (64 - layout.bits);
    let mut values = vec![0; step];
    for (i, out) in out.iter_mut().enumerate() {
        let mut value = sample(layout, row, i);
        if layout.predictor == 2 {
            value = value.wrapping_add(values[i % step]) & mask;
            values[i % step] = value;
        }
        *out = scaled(layout, value);
    }
}

/// The stored bits of a sample. Whole bytes are in the byte order of the file; other sizes are packed from the highest
/// bit on.
fn sample(layout: &TiffLayout, row: &[u8], i: usize) -> u64 {
    let bits = layout.bits as usize;
    if bits.is_multiple_of(8) {
        let bytes = bits / 8;
        return number(&row[i * bytes..(i + 1) * bytes], layout.little_endian);
    }
    let (from, to) = (i * bits, (i + 1) * bits);
    let window = number(&row[from / 8..to.div_ceil(8)], false);
    window >> (to.next_multiple_of(8) - to) & (u64::MAX >> (64 - bits))
}

/// One byte for a sample: palette indices as they are, everything else scaled to 0..=255.
fn scaled(layout: &TiffLayout, value: u64) -> u8 {
    if layout.photometric == Photometric::Palette {
        return value as u8;
    }
    let max = u64::MAX >> (64 - layout.bits);
    match layout.kind {
        SampleKind::Unsigned => scale_down(value, max),
        // Lab stores a and b with a sign, whether or not it says so.
        SampleKind::Signed if matches!(layout.photometric, Photometric::Lab { .. }) => value as u8,
        SampleKind::Signed => scale_down(if value > max / 2 { 0 } else { value }, max / 2),
        SampleKind::Float => from_float(float(value, layout.bits)),
    }
}

fn scale_down(value: u64, max: u64) -> u8 {
    ((u128::from(value) * 255 + u128::from(max) / 2) / u128::from(max.max(1))) as u8
}

fn from_float(value: f64) -> u8 {
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

fn float(value: u64, bits: u32) -> f64 {
    match bits {
        16 => half(value as u16),
        32 => f32::from_bits(value as u32).into(),
        _ => f64::from_bits(value),
    }
}

/// A number of half precision.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * (-24f64).exp2(),
        31 => f64::INFINITY,
        _ => (1024.0 + fraction) * f64::from(exponent - 25).exp2(),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Undoes the predictor for floats: differences of bytes, the highest bytes of all samples first.
fn undo_float_predictor(row: &mut [u8], bits: u32, step: usize) -> Vec<u64> {
    let (bytes, count) = (bits as usize / 8, row.len() / (bits as usize / 8));
    (step..row.len()).for_each(|i| row[i] = row[i].wrapping_add(row[i - step]));
    let value = |i: usize| (0..bytes).fold(0, |sum, byte| sum << 8 | u64::from(row[byte * count + i]));
    (0..count).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_scale_to_the_whole_range() {
        assert_eq!([0, 1, 2, 3].map(|value| scale_down(value, 3)), [0, 85, 170, 255]);
        assert_eq!([0, 2048, 4095].map(|value| scale_down(value, 4095)), [0, 128, 255]);
        assert_eq!([0x3c00, 0x3800, 0xbc00, 0].map(half), [1.0, 0.5, -1.0, 0.0]);
        assert_eq!(scale_down(u64::MAX, u64::MAX), 255);
    }
}
