//! The markers of a JPEG stream, read without decoding: size, colours, metadata, and whether it is whole.
//! Decoders draw something for a file that ends early; here the missing end is seen before they start.

use crate::failure::{Code, Failure};
use crate::size::Size;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;

/// How the components of a JPEG make colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Gray,
    YCbCr,
    Rgb,
    /// Four inks, plain or as YCCK; `inverted` by Adobe's custom of storing light instead of ink.
    Cmyk {
        inverted: bool,
    },
}

/// What the markers say.
#[derive(Debug)]
pub struct Markers {
    pub size: Size,
    pub color: Color,
    /// Sequential or progressive DCT of 8 bits, the kinds that can be scaled while decoding.
    pub is_baseline_dct: bool,
    /// Whether a decoder must gather several scans before it has a pixel.
    pub has_many_scans: bool,
    /// Whether the end-of-image marker is there.
    pub whole: bool,
    pub exif: Option<Vec<u8>>,
    pub icc: Option<Vec<u8>>,
    /// Whether there is anything that stripping would take away.
    pub has_metadata: bool,
}

/// Reads all markers of `bytes`.
pub fn read(bytes: &[u8]) -> Result<Markers, Failure> {
    let mut walk = Walk { bytes, ..Walk::default() };
    let whole = walk.walk();
    let Some(frame) = walk.frame else {
        let missing = "no frame header";
        return Err(if whole { Failure::decode(missing) } else { Failure::truncated(missing) });
    };
    if frame.precision != 8 {
        let detail = format!("JPEG of {} bits a sample", frame.precision);
        return Err(Failure::new(Code::Unsupported, detail));
    }
    if frame.size.area() == 0 {
        return Err(Failure::decode("a size of 0"));
    }
    let color = color(&frame, walk.adobe, walk.jfif)?;
    let is_baseline_dct = matches!(frame.marker, 0xc0..=0xc2);
    let is_one_scan = matches!(frame.marker, 0xc0 | 0xc1 | 0xc9) && walk.first_scan == Some(frame.ids.len());
    let icc = profile(walk.icc);
    Ok(Markers {
        size: frame.size,
        color,
        is_baseline_dct,
        has_many_scans: !is_one_scan,
        whole,
        exif: walk.exif,
        icc,
        has_metadata: walk.has_metadata,
    })
}

/// The same picture without fill bytes, garbage between segments, and metadata.
#[cfg(feature = "turbojpeg")]
pub fn without_garbage(bytes: &[u8]) -> Vec<u8> {
    let mut walk = Walk { bytes, ..Walk::default() };
    let mut clean = vec![0xff, SOI];
    while let Some(marker) = walk.next_marker() {
        if matches!(marker, 0x01 | 0xd0..=SOI) {
            continue;
        }
        clean.extend([0xff, marker]);
        if marker == EOI {
            break;
        }
        let start = walk.at;
        if walk.segment().is_none() {
            break;
        }
        if marker == SOS {
            walk.skip_entropy();
        }
        if matches!(marker, 0xe1..=0xed | 0xef | 0xfe) {
            clean.truncate(clean.len() - 2);
        } else {
            clean.extend(&bytes[start..walk.at]);
        }
    }
    clean
}

#[derive(Clone)]
struct Frame {
    marker: u8,
    precision: u8,
    size: Size,
    ids: Vec<u8>,
}

#[derive(Default)]
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    frame: Option<Frame>,
    /// Components of the first scan.
    first_scan: Option<usize>,
    adobe: Option<u8>,
    jfif: bool,
    exif: Option<Vec<u8>>,
    icc: Vec<(u8, &'a [u8])>,
    has_metadata: bool,
}

impl<'a> Walk<'a> {
    /// Goes through all markers; false when the stream ends before its end marker.
    fn walk(&mut self) -> bool {
        while let Some(marker) = self.next_marker() {
            match marker {
                EOI => return true,
                0x01 | 0xd0..=SOI => {}
                _ => {
                    let Some(body) = self.segment() else { return false };
                    self.note(marker, body);
                    if marker == SOS {
                        self.skip_entropy();
                    }
                }
            }
        }
        false
    }

    /// The next marker, over fill bytes and garbage, as decoders do.
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
        let head = self.bytes.get(self.at..self.at + 2)?;
        let len = usize::from(u16::from_be_bytes([head[0], head[1]])).max(2);
        let body = self.bytes.get(self.at + 2..self.at + len)?;
        self.at += len;
        Some(body)
    }

    /// To the next marker that is no restart.
    fn skip_entropy(&mut self) {
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

    fn note(&mut self, marker: u8, body: &'a [u8]) {
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf if self.frame.is_none() => {
                self.frame = frame(marker, body);
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

fn frame(marker: u8, body: &[u8]) -> Option<Frame> {
    let head = body.first_chunk::<6>()?;
    let size =
        Size::new(u32::from(u16::from_be_bytes([head[3], head[4]])), u32::from(u16::from_be_bytes([head[1], head[2]])));
    let ids = body[6..].chunks_exact(3).take(head[5].into()).map(|component| component[0]).collect();
    Some(Frame { marker, precision: head[0], size, ids })
}

fn color(frame: &Frame, adobe: Option<u8>, jfif: bool) -> Result<Color, Failure> {
    match (frame.ids.len(), adobe) {
        (1, _) => Ok(Color::Gray),
        (3, Some(0)) if !jfif => Ok(Color::Rgb),
        (3, None) if !jfif && frame.ids == *b"RGB" => Ok(Color::Rgb),
        (3, _) => Ok(Color::YCbCr),
        (4, adobe) => Ok(Color::Cmyk { inverted: adobe.is_some() }),
        (n, _) => Err(Failure::new(Code::Unsupported, format!("JPEG of {n} components"))),
    }
}

/// The parts of a profile in their order.
fn profile(mut parts: Vec<(u8, &[u8])>) -> Option<Vec<u8>> {
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
        assert_eq!((read.size, read.color, read.whole), (Size::new(30, 20), Color::YCbCr, true));
    }

    #[test]
    fn a_missing_end_is_seen() {
        assert!(!read(&jpeg(&[(0xc0, THREE), (SOS, &[0; 10])], &[1, 0xff, 0, 2])).unwrap().whole);
        assert_eq!(read(&jpeg(&[], &[0xff, 0xc0, 0, 17])).unwrap_err().code, Code::Truncated);
    }

    #[test]
    fn an_end_inside_a_thumbnail_is_not_the_end() {
        let exif = [b"Exif\0\0".as_slice(), &[0xff, SOI, 0xff, EOI]].concat();
        let read = read(&jpeg(&[(0xe1, &exif), (0xc0, THREE)], &[])).unwrap();
        assert_eq!((read.whole, read.exif.as_deref()), (false, Some([0xff, SOI, 0xff, EOI].as_slice())));
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
    fn adobe_tells_rgb_and_inverted_inks() {
        let adobe = b"Adobe\0\x64\0\0\0\0\0";
        let four = [8, 0, 1, 0, 1, 4, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0, 4, 0x11, 0];
        let color = |frame: &[u8], adobe: &[u8]| read(&jpeg(&[(0xee, adobe), (0xc0, frame)], &[])).unwrap().color;
        assert_eq!(color(THREE, adobe), Color::Rgb);
        assert_eq!(color(&four, adobe), Color::Cmyk { inverted: true });
        assert_eq!(color(&four, b"else"), Color::Cmyk { inverted: false });
    }
}
