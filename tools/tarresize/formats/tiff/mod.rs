//! The TIFF decoder: chunk by chunk into one byte per sample, then into pixels. The image crate's own decoder knows no
//! palettes, YCbCr, Lab, FillOrder or fax rows, and few depths.

mod chunk;
mod color;
mod directory;
mod fax;
mod jpeg_chunk;
pub mod layout;
mod samples;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::formats::tiff::layout::{Photometric, TiffCompression, TiffLayout};
use crate::tarresize::jpeg::DecodedPicture;

/// Decodes the first image of a TIFF. Missing or damaged data is reported as damage; the pixels there are zero.
pub fn decode(file: &[u8], layout: &TiffLayout) -> Result<DecodedPicture, ImageFailure> {
    let mut decoder = TiffChunkDecoder { file, layout, raw: Vec::new(), unpacked: Vec::new(), ends_early: false };
    let mut samples = vec![0; layout.size.area() as usize * layout.samples];
    let (across, down) = layout.grid();
    let planes = if layout.is_planar { layout.samples } else { 1 };
    let mut index = 0;
    for plane in 0..planes {
        for y in 0..down {
            for x in 0..across {
                decoder.decode(index, y)?;
                place(layout, &decoder.unpacked, (x, y), plane, &mut samples);
                index += 1;
            }
        }
    }
    let damage = decoder
        .ends_early
        .then(|| ImageFailure::new(ImageFailureCode::Truncated, "TIFF strips or tiles that end early"));
    let picture = color::to_picture(&layout_of_samples(layout), samples);
    Ok(DecodedPicture { picture, damage })
}

/// Decodes chunks one by one and reuses its buffers.
struct TiffChunkDecoder<'a> {
    file: &'a [u8],
    layout: &'a TiffLayout<'a>,
    raw: Vec<u8>,
    /// One byte per sample of the chunk.
    unpacked: Vec<u8>,
    ends_early: bool,
}

impl TiffChunkDecoder<'_> {
    fn decode(&mut self, index: usize, down: u32) -> Result<(), ImageFailure> {
        let layout = self.layout;
        let (width, rows) = (layout.chunk.width as usize, layout.rows_in_chunk(down) as usize);
        let row_samples = width * layout.samples_per_chunk();
        self.unpacked.clear();
        self.unpacked.resize(rows * row_samples, 0);
        let Some(bytes) = layout.chunk_bytes(self.file, index) else {
            self.ends_early = true;
            return Ok(());
        };
        if layout.compression == TiffCompression::Jpeg {
            return jpeg_chunk::decode(bytes, layout, (width, rows), &mut self.unpacked);
        }
        let has_units = layout.photometric == Photometric::YCbCr;
        let len = if has_units { unit_bytes(layout, rows) } else { rows * layout.row_bytes() };
        self.raw.resize(len, 0);
        self.ends_early |= chunk::decompress(bytes, layout, &mut self.raw)? < len;
        if has_units {
            spread_units(layout, &self.raw, (width, rows), &mut self.unpacked);
            return Ok(());
        }
        let raw_rows = self.raw.chunks_exact_mut(layout.row_bytes());
        raw_rows
            .zip(self.unpacked.chunks_exact_mut(row_samples))
            .for_each(|(row, out)| samples::unpack_row(layout, row, out));
        Ok(())
    }
}

/// The bytes of a chunk of subsampled YCbCr.
fn unit_bytes(layout: &TiffLayout, rows: usize) -> usize {
    let (across, down) = (layout.subsampling.0 as usize, layout.subsampling.1 as usize);
    (layout.chunk.width as usize).div_ceil(across) * rows.div_ceil(down) * (across * down + 2)
}

/// Spreads subsampled YCbCr, stored as units of some luma samples and two chroma samples, over all pixels.
fn spread_units(layout: &TiffLayout, raw: &[u8], (width, rows): (usize, usize), out: &mut [u8]) {
    let (across, down) = (layout.subsampling.0 as usize, layout.subsampling.1 as usize);
    let per_row = width.div_ceil(across);
    for (i, unit) in raw.chunks_exact(across * down + 2).enumerate() {
        let (left, top) = (i % per_row * across, i / per_row * down);
        for (k, &luma) in unit[..across * down].iter().enumerate() {
            let (x, y) = (left + k % across, top + k / across);
            if x < width && y < rows {
                out[(y * width + x) * 3..][..3].copy_from_slice(&[luma, unit[across * down], unit[across * down + 1]]);
            }
        }
    }
}

/// Copies the samples of a chunk to their place among all samples.
fn place(layout: &TiffLayout, chunk: &[u8], (x, y): (u32, u32), plane: usize, samples: &mut [u8]) {
    let (count, per_chunk) = (layout.samples, layout.samples_per_chunk());
    let (left, top) = (x * layout.chunk.width, y * layout.chunk.height);
    let columns = layout.chunk.width.min(layout.size.width - left) as usize;
    let rows = layout.rows_in_chunk(y).min(layout.size.height - top) as usize;
    let row_samples = layout.chunk.width as usize * per_chunk;
    for (row, from) in chunk.chunks_exact(row_samples).take(rows).enumerate() {
        let start = ((top as usize + row) * layout.size.width as usize + left as usize) * count;
        let to = &mut samples[start..start + columns * count];
        if per_chunk == count {
            to.copy_from_slice(&from[..columns * count]);
        } else {
            to.iter_mut().skip(plane).step_by(count).zip(from).for_each(|(to, &from)| *to = from);
        }
    }
}

/// The layout of the unpacked samples: the JPEG decoder has already converted YCbCr to RGB.
fn layout_of_samples<'a>(layout: &TiffLayout<'a>) -> TiffLayout<'a> {
    let mut layout = layout.clone();
    if layout.compression == TiffCompression::Jpeg && layout.photometric == Photometric::YCbCr {
        layout.photometric = Photometric::Rgb;
    }
    layout
}
