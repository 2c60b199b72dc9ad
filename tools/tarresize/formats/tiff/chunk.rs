//! Decompresses a strip or tile of a TIFF, except JPEG, to the bytes that were compressed.

use std::borrow::Cow;
use std::io::Read;

use flate2::read::ZlibDecoder;
use weezl::BitOrder;

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::formats::tiff::fax;
use crate::tarresize::formats::tiff::layout::{TiffCompression, TiffLayout};

/// Fills `out` with the decompressed bytes of a chunk, and returns how many there were; the rest of `out` is zero.
/// Damaged data counts up to the damage.
pub fn decompress(data: &[u8], layout: &TiffLayout, out: &mut [u8]) -> Result<usize, ImageFailure> {
    out.fill(0);
    let data = if layout.low_bits_first { Cow::Owned(reversed_bits(data)) } else { Cow::Borrowed(data) };
    Ok(match layout.compression {
        TiffCompression::None => {
            let len = data.len().min(out.len());
            out[..len].copy_from_slice(&data[..len]);
            len
        }
        TiffCompression::PackBits => unpack_bits(&data, out),
        TiffCompression::Lzw => decode_lzw(&data, out),
        TiffCompression::Deflate => inflate(&data, out),
        TiffCompression::Rle | TiffCompression::Group3 { .. } | TiffCompression::Group4 => {
            let row_bytes = layout.row_bytes();
            let rows = fax::decode(&data, layout.compression, layout.chunk.width, out.len() / row_bytes, out);
            rows * row_bytes
        }
        TiffCompression::Jpeg => {
            return Err(ImageFailure::decode("internal error: JPEG in a TIFF has its own decoder"));
        }
    })
}

fn reversed_bits(data: &[u8]) -> Vec<u8> {
    data.iter().map(|byte| byte.reverse_bits()).collect()
}

/// PackBits: a count, then that many bytes, or one byte to repeat.
fn unpack_bits(data: &[u8], out: &mut [u8]) -> usize {
    let (mut at, mut written) = (0, 0);
    while let Some(&count) = data.get(at).filter(|_| written < out.len()) {
        let space = out.len() - written;
        match count {
            0..=127 => {
                let len = usize::from(count) + 1;
                let Some(bytes) = data.get(at + 1..(at + 1 + len).min(data.len())) else { break };
                let taken = bytes.len().min(space);
                out[written..written + taken].copy_from_slice(&bytes[..taken]);
                (at, written) = (at + 1 + len, written + taken);
            }
            128 => at += 1,
            129..=255 => {
                let Some(&byte) = data.get(at + 1) else { break };
                let taken = (257 - usize::from(count)).min(space);
                out[written..written + taken].fill(byte);
                (at, written) = (at + 2, written + taken);
            }
        }
    }
    written
}

fn decode_lzw(data: &[u8], out: &mut [u8]) -> usize {
    // Writers before TIFF 6 began with the low bits, and widened codes one later.
    let is_old = data.len() >= 2 && data[0] == 0 && data[1] & 1 == 1;
    let mut decoder = if is_old {
        weezl::decode::Decoder::new(BitOrder::Lsb, 8)
    } else {
        weezl::decode::Decoder::with_tiff_size_switch(BitOrder::Msb, 8)
    };
    let (mut read, mut written) = (0, 0);
    loop {
        let step = decoder.decode_bytes(&data[read..], &mut out[written..]);
        (read, written) = (read + step.consumed_in, written + step.consumed_out);
        let is_stuck = step.consumed_in == 0 && step.consumed_out == 0;
        if is_stuck || written == out.len() || !matches!(step.status, Ok(weezl::LzwStatus::Ok)) {
            return written;
        }
    }
}

fn inflate(data: &[u8], out: &mut [u8]) -> usize {
    let (mut decoder, mut written) = (ZlibDecoder::new(data), 0);
    while written < out.len() {
        match decoder.read(&mut out[written..]) {
            Ok(0) | Err(_) => break,
            Ok(len) => written += len,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bits_copy_and_repeat() {
        let mut out = [0; 8];
        assert_eq!(unpack_bits(&[1, 7, 8, 128, 254, 9, 0, 5], &mut out), 6);
        assert_eq!(out, [7, 8, 9, 9, 9, 5, 0, 0]);
        assert_eq!(unpack_bits(&[129, 1], &mut out), 8);
        assert_eq!(unpack_bits(&[9, 1], &mut out), 1);
    }
}
