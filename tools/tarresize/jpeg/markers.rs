//! Reads the markers of a JPEG without decoding it: size, colour model, metadata, and whether the file is complete.
//! Decoders return a picture even for a truncated file; here the missing end is noticed first.

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};
use crate::tarresize::geometry::PixelSize;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;

/// The colour model of a JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegColor {
    Gray,
    YCbCr,
    Rgb,
    /// Four inks, as CMYK or YCCK. `inverted` if 255 means no ink, which is how Adobe writes them.
    Cmyk {
        inverted: bool,
    },
}

/// What the markers declare.
#[derive(Debug)]
pub struct Markers {
    pub size: PixelSize,
    pub color: JpegColor,
    /// 8-bit sequential or progressive DCT, which can be scaled while decoding.
    pub can_scale: bool,
    /// Whether a decoder must collect several scans before it can output a pixel.
    pub has_many_scans: bool,
    /// Whether the end-of-image marker was found.
    pub is_complete: bool,
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
    /// Whether `--strip` would remove anything.
    pub has_metadata: bool,
}

/// Reads all markers.
pub fn read(bytes: &[u8]) -> Result<Markers, ImageFailure> {
    let mut reader = MarkerReader { bytes, ..MarkerReader::default() };
    let is_complete = reader.read_all();
    let Some(frame) = reader.frame else {
        let missing = "missing frame header";
        return Err(if is_complete { ImageFailure::decode(missing) } else { ImageFailure::truncated(missing) });
    };
    if frame.precision != 8 {
        let detail = format!("JPEG with {} bits per sample", frame.precision);
        return Err(ImageFailure::new(ImageFailureCode::Unsupported, detail));
    }
    if frame.size.area() == 0 {
        return Err(ImageFailure::decode("width or height is 0"));
    }
    let color = color_of(&frame, reader.adobe, reader.jfif)?;
    let can_scale = matches!(frame.marker, 0xc0..=0xc2);
    let is_one_scan = matches!(frame.marker, 0xc0 | 0xc1 | 0xc9) && reader.first_scan == Some(frame.ids.len());
    let icc = join_profile(reader.icc);
    Ok(Markers {
        size: frame.size,
        color,
        can_scale,
        has_many_scans: !is_one_scan,
        is_complete,
        exif: reader.exif,
        icc,
        has_metadata: reader.has_metadata,
    })
}

/// Returns the same image without metadata, fill bytes, or garbage between segments.
#[cfg(feature = "turbojpeg")]
pub fn without_garbage(bytes: &[u8]) -> Vec<u8> {
    let mut reader = MarkerReader { bytes, ..MarkerReader::default() };
    let mut clean = vec![0xff, SOI];
    while let Some(marker) = reader.next_marker() {
        if matches!(marker, 0x01 | 0xd0..=SOI) {
            continue;
        }
        clean.extend([0xff, marker]);
        if marker == EOI {
            break;
        }
        let start = reader.at;
        if reader.segment().is_none() {
            break;
        }
        if marker == SOS {
            reader.skip_scan_data();
        }
        if matches!(marker, 0xe1..=0xed | 0xef | 0xfe) {
            clean.truncate(clean.len() - 2);
        } else {
            clean.extend(&bytes[start..reader.at]);
        }
    }
    clean
}

#[derive(Clone)]
struct FrameHeader {
    marker: u8,
    precision: u8,
    size: PixelSize,
    ids: Vec<u8>,
}

#[derive(Default)]
struct MarkerReader<'a> {
    bytes: &'a [u8],
    at: usize,
    frame: Option<FrameHeader>,
    /// The number of components in the first scan.
    first_scan: Option<usize>,
    adobe: Option<u8>,
    jfif: bool,
    exif: Option<Vec<u8>>,
    icc: Vec<(u8, &'a [u8])>,
    has_metadata: bool,
}

impl<'a> MarkerReader<'a> {
    /// Reads up to the end-of-image marker; false if it is missing.
    fn read_all(&mut self) -> bool {
        while let Some(marker) = self.next_marker() {
            match marker {
                EOI => return true,
                0x01 | 0xd0..=SOI => {}
                _ => {
                    let Some(body) = self.segment() else { return false };
                    self.record(marker, body);
                    if marker == SOS {
                        self.skip_scan_data();
                    }
                }
            }
        }
        false
    }

    /// The next marker; skips fill bytes and garbage, as decoders do.
    fn next_marker(&mut self) -> Option<u8> {
        loop {
            self.at += self.bytes.get(self.at..)?.iter().position(|&byte| byte == 0xff)?;
            self.at += self.bytes[self.at..].iter().position(|&byte| byte != 0xff)?;
            let marker = self.bytes[self.at];
            self.at += 1;
            if marker != 0 {
                return Some(marker);
            }
        }
    }

    fn segment(&mut self) -> Option<&'a [u8]> {
        let header = self.bytes.get(self.at..self.at + 2)?;
        let len = usize::from(u16::from_be_bytes([header[0], header[1]])).max(2);
        let body = self.bytes.get(self.at + 2..self.at + len)?;
        self.at += len;
        Some(body)
    }

    /// Skips compressed data up to the next marker that is not a restart marker.
    fn skip_scan_data(&mut self) {
        while let Some(found) = memchr::memchr(0xff, &self.bytes[self.at..]) {
            self.at += found;
            match self.bytes.get(self.at + 1) {
                Some(0 | 0xd0..=0xd7) => self.at += 2,
                Some(0xff) => self.at += 1,
                _ => return,
            }
        }
        self.at = self.bytes.len();
    }

    fn record(&mut self, marker: u8, body: &'a [u8]) {
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf if self.frame.is_none() => {
                self.frame = parse_frame(marker, body);
            }
            SOS if self.first_scan.is_none() => self.first_scan = body.first().map(|&count| count.into()),
            0xe0 if body.starts_with(b"JFIF\0") => self.jfif = true,
            0xee if body.starts_with(b"Adobe") && body.len() >= 12 => self.adobe = Some(body[11]),
            0xe1 if body.starts_with(b"Exif\0\0") && self.exif.is_none() => {
                self.exif = Some(body[6..].to_vec());
                self.has_metadata = true;
            }
            0xe2 if body.starts_with(b"ICC_PROFILE\0") && body.len() > 14 => {
                self.icc.push((body[12], &body[14..]));
                self.has_metadata = true;
            }
            0xe1..=0xef | 0xfe => self.has_metadata = true,
            _ => {}
        }
    }
}

fn parse_frame(marker: u8, body: &[u8]) -> Option<FrameHeader> {
    let header = body.first_chunk::<6>()?;
    let size = PixelSize::new(
        u32::from(u16::from_be_bytes([header[3], header[4]])),
        u32::from(u16::from_be_bytes([header[1], header[2]])),
    );
    let ids = body[6..].chunks_exact(3).take(header[5].into()).map(|component| component[0]).collect();
    Some(FrameHeader { marker, precision: header[0], size, ids })
}

fn color_of(frame: &FrameHeader, adobe: Option<u8>, jfif: bool) -> Result<JpegColor, ImageFailure> {
    match (frame.ids.len(), adobe) {
        (1, _) => Ok(JpegColor::Gray),
        (3, Some(0)) if !jfif => Ok(JpegColor::Rgb),
        (3, None) if !jfif && frame.ids == *b"RGB" => Ok(JpegColor::Rgb),
        (3, _) => Ok(JpegColor::YCbCr),
        (4, adobe) => Ok(JpegColor::Cmyk { inverted: adobe.is_some() }),
        (n, _) => Err(ImageFailure::new(ImageFailureCode::Unsupported, format!("JPEG with {n} components"))),
    }
}

/// Joins the parts of an ICC profile in order.
fn join_profile(mut parts: Vec<(u8, &[u8])>) -> Option<Vec<u8>> {
    parts.sort_by_key(|(number, _)| *number);
    (!parts.is_empty()).then(|| parts.into_iter().flat_map(|(_, part)| part).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg(segments: &[(u8, &[u8])], tail: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xff, SOI];
        for (marker, body) in segments {
            bytes.extend([0xff, *marker]);
            bytes.extend((body.len() as u16 + 2).to_be_bytes());
            bytes.extend(*body);
        }
        bytes.extend(tail);
        bytes
    }

    const THREE: &[u8] = &[8, 0, 20, 0, 30, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1];

    #[test]
    fn size_color_and_end_are_seen() {
        let read = read(&jpeg(&[(0xc0, THREE), (SOS, &[0; 10])], &[1, 0xff, 0, 0xff, 0xd3, 2, 0xff, EOI])).unwrap();
        assert_eq!((read.size, read.color, read.is_complete), (PixelSize::new(30, 20), JpegColor::YCbCr, true));
    }

    #[test]
    fn a_missing_end_is_seen() {
        assert!(!read(&jpeg(&[(0xc0, THREE), (SOS, &[0; 10])], &[1, 0xff, 0, 2])).unwrap().is_complete);
        assert_eq!(read(&jpeg(&[], &[0xff, 0xc0, 0, 17])).unwrap_err().code, ImageFailureCode::Truncated);
    }

    #[test]
    fn an_end_inside_a_thumbnail_is_not_the_end() {
        let exif = [b"Exif\0\0".as_slice(), &[0xff, SOI, 0xff, EOI]].concat();
        let read = read(&jpeg(&[(0xe1, &exif), (0xc0, THREE)], &[])).unwrap();
        assert_eq!((read.is_complete, read.exif.as_deref()), (false, Some([0xff, SOI, 0xff, EOI].as_slice())));
    }

    #[cfg(feature = "turbojpeg")]
    #[test]
    fn garbage_and_metadata_are_taken_out() {
        let tail = [1, 0xff, 0, 2, 0xff, EOI];
        let clean = jpeg(&[(0xc0, THREE), (SOS, &[0; 10])], &tail);
        let mut dirty = jpeg(&[(0xe1, b"meta")], &[9, 9, 0xff, 0xff]);
        dirty.extend(&clean[3..]);
        assert_eq!(without_garbage(&dirty), clean);
        assert_eq!(without_garbage(&clean), clean);
    }

    #[test]
    fn profiles_come_in_parts_of_any_order() {
        let part = |n: u8, byte: u8| [b"ICC_PROFILE\0".as_slice(), &[n, 2, byte]].concat();
        let (two, one) = (part(2, b'b'), part(1, b'a'));
        let read = read(&jpeg(&[(0xe2, &two), (0xe2, &one), (0xc0, THREE)], &[0xff, EOI])).unwrap();
        assert_eq!(read.icc.as_deref(), Some(b"ab".as_slice()));
    }

    #[test]
    fn the_adobe_marker_tells_rgb_and_inverted_cmyk() {
        let adobe = b"Adobe\0\x64\0\0\0\0\0";
        let four = [8, 0, 1, 0, 1, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0];
        let color = |frame: &[u8], adobe: &[u8]| read(&jpeg(&[(0xee, adobe), (0xc0, frame)], &[])).unwrap().color;
        assert_eq!(color(THREE, adobe), JpegColor::Rgb);
        assert_eq!(color(&four, adobe), JpegColor::Cmyk { inverted: true });
        assert_eq!(color(&four, b"else"), JpegColor::Cmyk { inverted: false });
    }
}
