//! Walks the chunk headers of GIF, PNG and WebP: counts frames and finds WebP metadata without decoding anything.

/// The number of frames in a GIF, at least 1.
pub fn gif_frames(bytes: &[u8]) -> u64 {
    count_gif_frames(bytes).max(1)
}

fn count_gif_frames(bytes: &[u8]) -> u64 {
    let table = |flags: u8| if flags & 0x80 == 0 { 0 } else { 3usize << ((flags & 7) + 1) };
    let Some(&flags) = bytes.get(10) else { return 0 };
    let mut at = 13 + table(flags);
    let mut frames = 0;
    loop {
        let data = match bytes.get(at) {
            Some(0x21) => at + 2,
            Some(0x2c) => {
                frames += 1;
                let Some(&flags) = bytes.get(at + 9) else { return frames };
                at + 10 + table(flags) + 1
            }
            _ => return frames,
        };
        let Some(next) = skip_sub_blocks(bytes, data) else { return frames };
        at = next;
    }
}

/// Returns the position after a list of length-prefixed blocks, which ends with an empty block.
fn skip_sub_blocks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let len = usize::from(*bytes.get(at)?);
        at += 1 + len;
        if len == 0 {
            return Some(at);
        }
    }
}

/// The number of frames that an animated PNG declares, else 1.
pub fn png_frames(bytes: &[u8]) -> u64 {
    let mut at = 8;
    while let Some(header) = bytes.get(at..at + 8) {
        let len = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        match &header[4..] {
            b"acTL" => {
                return bytes.get(at + 8..at + 12).map_or(1, |n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]).into());
            }
            b"IDAT" => return 1,
            _ => at += len + 12,
        }
    }
    1
}

/// What the chunks of a WebP declare.
#[derive(Debug, Default, PartialEq)]
pub struct WebpChunks {
    pub frames: u64,
    pub is_complete: bool,
    pub icc: Option<Vec<u8>>,
    pub exif: Option<Vec<u8>>,
    pub xmp: bool,
}

/// Reads the chunk headers of a WebP.
pub fn read_webp(bytes: &[u8]) -> WebpChunks {
    let little = |b: &[u8]| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize;
    let mut webp = WebpChunks::default();
    let Some(size) = bytes.get(4..8).map(little) else { return webp };
    webp.is_complete = size + 8 <= bytes.len();
    let bytes = &bytes[..bytes.len().min(size + 8)];
    let mut at = 12;
    while let Some(header) = bytes.get(at..at + 8) {
        let len = little(&header[4..]);
        let Some(body) = bytes.get(at + 8..at + 8 + len) else { break };
        match &header[..4] {
            b"ANMF" => webp.frames += 1,
            b"ICCP" => webp.icc = Some(body.to_vec()),
            b"EXIF" => webp.exif = Some(body.strip_prefix(b"Exif\0\0").unwrap_or(body).to_vec()),
            b"XMP " => webp.xmp = true,
            _ => {}
        }
        at += 8 + len + len % 2;
    }
    webp.frames = webp.frames.max(1);
    webp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gif_frames_are_counted_over_extensions() {
        let mut bytes = b"GIF89a\x01\0\x01\0\x80\0\0".to_vec();
        bytes.extend([0; 6]);
        for _ in 0..3 {
            bytes.extend([0x21, 0xf9, 4, 0, 0, 0, 0, 0]);
            bytes.extend([0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x4c, 1, 0]);
        }
        assert_eq!(gif_frames(&bytes), 3);
        assert_eq!(gif_frames(&bytes[..bytes.len() - 20]), 2);
        assert_eq!(gif_frames(b"GIF89a"), 1);
    }

    #[test]
    fn webp_chunks_are_read_to_the_announced_end() {
        let mut bytes = b"RIFF\0\0\0\0WEBP".to_vec();
        for (name, body) in [(b"ICCP", b"abc".as_slice()), (b"ANMF", b""), (b"ANMF", b""), (b"EXIF", b"Exif\0\0II")] {
            bytes.extend(name);
            bytes.extend((body.len() as u32).to_le_bytes());
            bytes.extend(body);
            bytes.resize(bytes.len().next_multiple_of(2), 0);
        }
        let len = (bytes.len() - 8) as u32;
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        let read = read_webp(&bytes);
        assert_eq!((read.frames, read.is_complete), (2, true));
        assert_eq!((read.icc.as_deref(), read.exif.as_deref()), (Some(b"abc".as_slice()), Some(b"II".as_slice())));
        assert!(!read_webp(&bytes[..bytes.len() - 1]).is_complete);
    }

    #[test]
    fn png_frames_are_those_announced() {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\0IHDR\0\0\0\0".to_vec();
        assert_eq!(png_frames(&bytes), 1);
        bytes.extend(b"\0\0\0\x08acTL\0\0\0\x05\0\0\0\0");
        assert_eq!(png_frames(&bytes), 5);
    }
}
