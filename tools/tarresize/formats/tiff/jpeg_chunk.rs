//! Decodes a strip or tile of a TIFF that is compressed as JPEG. Its tables may be in a tag, and its colour model is that
//! of the TIFF: an Adobe segment tells it to the decoder.

use crate::tarresize::failure::ImageFailure;
use crate::tarresize::formats::tiff::layout::{Photometric, TiffLayout};
use crate::tarresize::jpeg::{codec, markers};

/// Decodes a chunk of `width` x `rows` pixels into `out`, one byte per sample.
pub fn decode(
    data: &[u8],
    layout: &TiffLayout,
    (width, rows): (usize, usize),
    out: &mut [u8],
) -> Result<(), ImageFailure> {
    let jpeg = assembled(data, layout);
    let markers = markers::read(&jpeg)?;
    // Rounded up to whole blocks, as some writers do; more would be memory that the estimate does not know.
    if markers.size.width as usize > width.next_multiple_of(64)
        || markers.size.height as usize > rows.next_multiple_of(64)
    {
        return Err(ImageFailure::decode("JPEG data larger than its TIFF strip or tile"));
    }
    let picture = codec::decode_pixels(&jpeg, &markers, 1)?.picture;
    let samples = layout.samples_per_chunk();
    if picture.layout.channels() != samples {
        return Err(ImageFailure::decode("JPEG data with another number of samples than its TIFF"));
    }
    let decoded_row = picture.size.width as usize * samples;
    for (from, to) in picture.data.chunks_exact(decoded_row).zip(out.chunks_exact_mut(width * samples)) {
        let len = from.len().min(to.len());
        to[..len].copy_from_slice(&from[..len]);
    }
    Ok(())
}

/// The JPEG with its tables, and with a segment that names its colour model.
fn assembled(data: &[u8], layout: &TiffLayout) -> Vec<u8> {
    // Adobe's marker says: 0, the components are RGB; 1, YCbCr. Four components are left alone: with the marker they would
    // count as inverted.
    let transform = u8::from(layout.photometric == Photometric::YCbCr);
    let body = data.strip_prefix(&[0xff, 0xd8]).unwrap_or(data);
    let tables = layout.jpeg_tables.and_then(|tables| tables.strip_prefix(&[0xff, 0xd8])).unwrap_or_default();
    let tables = tables.strip_suffix(&[0xff, 0xd9]).unwrap_or(tables);
    let mut jpeg = vec![0xff, 0xd8];
    if layout.samples_per_chunk() == 3 {
        jpeg.extend([0xff, 0xee, 0, 14]);
        jpeg.extend(b"Adobe\0\x64\0\0\0\0");
        jpeg.push(transform);
    }
    jpeg.extend_from_slice(tables);
    jpeg.extend_from_slice(body);
    jpeg
}
