//! Compression of streams. On input the format is detected from the first
//! bytes, never from the name; on output it is chosen by the suffix of the name
//! or by a flag.
//!
//! | format | suffixes | levels (usual) | threads |
//! |---|---|---|---|
//! | gzip | `.gz`, `.tgz` | 1 to 9 (6) | several |
//! | zstd | `.zst`, `.tzst` | 1 to 22 (3) | several |
//! | xz | `.xz`, `.txz` | 1 to 9 (6) | one |
//! | bzip2 | `.bz2`, `.tbz2`, `.tbz` | 1 to 9 (9) | one |
//! | lz4 | `.lz4` | 1 | one |
//!
//! The same input always gives the same bytes, whatever the number of threads
//! and the sizes of the writes.
//!
//! Used by [`crate::source`] and [`crate::sink`]; tools rarely call it
//! directly.

use std::io::{self, Write};
use std::str::FromStr;

use anyhow::{Result, bail};

mod decode;
mod encode;
mod gzip;
mod input;

pub use decode::{HEAD, decoder, decoder_for, is_compressed, recognise};
pub use encode::Encoder;

/// A compression format. `Display` gives the name that flags use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionFormat {
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
    /// xz, with LZMA2.
    Xz,
    /// bzip2.
    Bzip2,
    /// The LZ4 frame format.
    Lz4,
}

impl std::fmt::Display for CompressionFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.known().name)
    }
}

/// How an output is compressed: a format and a level. Parsed from `gzip` or
/// `zstd:19`.
///
/// ```
/// use std::io::{Cursor, Read, Write};
/// use tarpipe::compression::{Compression, decoder};
///
/// let mut encoder = "zstd:5".parse::<Compression>()?.encoder(Vec::new(), 2)?;
/// encoder.write_all(b"hello")?;
/// let packed = encoder.finish()?;
///
/// let mut text = String::new();
/// decoder(Box::new(Cursor::new(packed)))?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    format: CompressionFormat,
    level: u32,
}

/// The properties of a format.
struct FormatInfo {
    format: CompressionFormat,
    name: &'static str,
    suffixes: &'static [&'static str],
    usual_level: u32,
    highest_level: u32,
    magic: &'static [u8],
}

/// In the order of [`CompressionFormat`].
static KNOWN: [FormatInfo; 5] = [
    FormatInfo {
        format: CompressionFormat::Gzip,
        name: "gzip",
        suffixes: &[".gz", ".tgz"],
        usual_level: 6,
        highest_level: 9,
        magic: &[0x1f, 0x8b],
    },
    FormatInfo {
        format: CompressionFormat::Zstd,
        name: "zstd",
        suffixes: &[".zst", ".tzst"],
        usual_level: 3,
        highest_level: 22,
        magic: &[0x28, 0xb5, 0x2f, 0xfd],
    },
    FormatInfo {
        format: CompressionFormat::Xz,
        name: "xz",
        suffixes: &[".xz", ".txz"],
        usual_level: 6,
        highest_level: 9,
        magic: &[0xfd, b'7', b'z', b'X', b'Z', 0],
    },
    FormatInfo {
        format: CompressionFormat::Bzip2,
        name: "bzip2",
        suffixes: &[".bz2", ".tbz2", ".tbz"],
        usual_level: 9,
        highest_level: 9,
        magic: b"BZh",
    },
    FormatInfo {
        format: CompressionFormat::Lz4,
        name: "lz4",
        suffixes: &[".lz4"],
        usual_level: 1,
        highest_level: 1,
        magic: &[0x04, 0x22, 0x4d, 0x18],
    },
];

impl CompressionFormat {
    /// The loaders of training data that cannot read shards of this format, by
    /// the names that tarcheck --for takes. Python's tarfile, on which most of
    /// them rest, reads zstd since version 3.14 only.
    ///
    /// ```
    /// use tarpipe::compression::CompressionFormat;
    ///
    /// assert_eq!(CompressionFormat::Xz.loaders_without(), ["energon", "wids"]);
    /// ```
    pub fn loaders_without(self) -> &'static [&'static str] {
        match self {
            CompressionFormat::Gzip | CompressionFormat::Bzip2 | CompressionFormat::Xz => &["energon", "wids"],
            CompressionFormat::Zstd | CompressionFormat::Lz4 => &["hf", "webdataset", "energon", "wids", "ray"],
        }
    }

    fn known(self) -> &'static FormatInfo {
        &KNOWN[self as usize]
    }
}

impl Compression {
    /// gzip at level 6.
    pub fn gzip() -> Self {
        Compression { format: CompressionFormat::Gzip, level: 6 }
    }

    /// The compression that the suffix of a name asks for, at the format's
    /// usual level: `.gz`, `.tgz`, `.zst`, `.tzst`, `.xz`, `.txz`, `.bz2`,
    /// `.tbz2`, `.tbz` and `.lz4`. None for any other suffix.
    pub fn by_suffix(name: &str) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.suffixes.iter().any(|suffix| name.ends_with(suffix)))?;
        Some(Compression { format: known.format, level: known.usual_level })
    }

    /// The format without the level.
    pub fn format(self) -> CompressionFormat {
        self.format
    }

    /// Wraps `out` so that everything written to it is compressed. gzip and
    /// zstd use up to `threads` threads, the others one; the bytes do not
    /// depend on the number of threads. Fails only if zstd refuses the level.
    pub fn encoder<W: Write + Send + 'static>(self, out: W, threads: usize) -> io::Result<Encoder<W>> {
        let level = self.level;
        Ok(match self.format {
            CompressionFormat::Gzip => Encoder::Gzip(gzip::GzipEncoder::new(out, level, threads)),
            CompressionFormat::Zstd => {
                let mut encoder = zstd::Encoder::new(out, level as i32)?;
                // One worker gives the same bytes as many, but no worker gives different ones.
                encoder.multithread(threads.max(1) as u32)?;
                encoder.include_checksum(true)?;
                Encoder::Zstd(encoder)
            }
            CompressionFormat::Xz => Encoder::Xz(liblzma::write::XzEncoder::new(out, level)),
            CompressionFormat::Bzip2 => {
                Encoder::Bzip2(bzip2::write::BzEncoder::new(out, bzip2::Compression::new(level)))
            }
            CompressionFormat::Lz4 => Encoder::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(out))),
        })
    }
}

/// Parses a format and, after a colon, an optional level from 1 to the highest
/// of the format (9; 22 for zstd, 1 for lz4).
impl FromStr for Compression {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, level) = text.split_once(':').map_or((text, None), |(name, level)| (name, Some(level)));
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
            bail!("unknown format '{name}' (known: gzip, zstd, xz, bzip2, lz4)");
        };
        let level = match level.map(str::parse) {
            None => known.usual_level,
            Some(Ok(level)) if (1..=known.highest_level).contains(&level) => level,
            Some(_) => bail!("the level of {name} is a number from 1 to {}", known.highest_level),
        };
        Ok(Compression { format: known.format, level })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    fn compress(format: &str, data: &[u8], threads: usize) -> Vec<u8> {
        let compression: Compression = format.parse().unwrap();
        let mut encoder = compression.encoder(Vec::new(), threads).unwrap();
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn decompress(data: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decoder(Box::new(Cursor::new(data)))?.read_to_end(&mut out).map(|_| out)
    }

    fn data() -> Vec<u8> {
        (0..1_000_000_u32).flat_map(|i| (i / 7).wrapping_mul(2_654_435_761).to_le_bytes()).collect()
    }

    #[test]
    fn every_format_round_trips_even_if_concatenated() {
        for format in ["gzip", "gzip:1", "zstd", "zstd:1", "xz:1", "bzip2", "lz4"] {
            let once = compress(format, &data(), 2);
            assert!(decompress(once.clone()).unwrap() == data(), "{format}");
            let twice = [once.clone(), once].concat();
            assert_eq!(decompress(twice).unwrap().len(), 2 * data().len(), "{format} twice");
        }
    }

    #[test]
    fn gzip_stores_incompressible_data() {
        let mut state = 1_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let photo: Vec<u8> = (0..3_000_000).map(|_| byte()).collect();
        let stored = compress("gzip", &photo, 2);
        assert!(stored.len() > photo.len() && stored.len() < photo.len() + photo.len() / 5_000, "{}", stored.len());
        let text = b"a house on a hill\n".repeat(2_000);
        let ramp: Vec<u8> = (0..=255).cycle().take(1_000_000).collect(); // even, but it comes again
        let mixed = [&photo[..70_001], &text, &photo[..5], &text, &photo, &ramp].concat();
        let packed = compress("gzip", &mixed, 2);
        let dense = photo.len() + 70_001;
        assert!(packed.len() < dense + 30_000, "{} of {dense}", packed.len());
        assert!(decompress(packed).unwrap() == mixed);
        assert!(decompress(compress("gzip", b"", 2)).unwrap().is_empty());
    }

    #[test]
    fn a_cut_is_noticed_wherever_it_is() {
        let text: Vec<u8> =
            (0..12_000_u32).flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect();
        for format in ["gzip", "zstd", "xz:1", "bzip2:1", "lz4"] {
            let one = compress(format, &text, 1);
            let whole = [one.clone(), one.clone()].concat();
            let ends = [one.len(), whole.len()];
            let near = |end: usize| end - 20..end + 20;
            let cuts = (1..30).chain((30..whole.len()).step_by(4099)).chain(near(ends[0])).chain(near(ends[1]));
            for cut in cuts.filter(|cut| *cut <= whole.len()) {
                let decoded = decompress(whole[..cut].to_vec());
                let lines = ends.iter().position(|end| *end == cut).map(|at| at + 1);
                // One letter may be a text of its own.
                let is_text = cut == 1 && whole[0].is_ascii_graphic() || cut < 4 && format == "bzip2:1";
                match (decoded, lines) {
                    (Ok(bytes), Some(times)) => assert_eq!(bytes.len(), times * text.len(), "{format} cut at {cut}"),
                    (Err(err), None) => {
                        assert_eq!(err.kind(), io::ErrorKind::UnexpectedEof, "{format} cut at {cut}: {err}")
                    }
                    (Ok(bytes), None) => assert!(is_text && bytes == whole[..cut], "{format} cut at {cut} looks whole"),
                    (Err(err), Some(_)) => panic!("{format} cut at {cut}, between two frames: {err}"),
                }
            }
        }
    }

    #[test]
    fn padding_and_skippable_frames_are_ignored() {
        let skippable =
            |length: usize| [&[0x5a, 0x2a, 0x4d, 0x18][..], &(length as u32).to_le_bytes(), &vec![7; length]].concat();
        for (format, between) in [
            ("gzip", vec![0; 100_000]),
            ("bzip2", vec![0; 3]),
            ("xz:1", vec![0; 8]),
            ("zstd", skippable(12)),
            ("lz4", [skippable(0), skippable(100_000)].concat()),
        ] {
            let one = compress(format, &data()[..1000], 1);
            let packed = [&one[..], &between, &one, &between].concat();
            assert_eq!(decompress(packed.clone()).unwrap().len(), 2000, "{format}");
            if between[0] == 0x5a {
                assert_eq!(
                    decompress([between.clone(), packed].concat()).unwrap().len(),
                    2000,
                    "{format} after a skippable frame"
                );
                let cut = [&one[..], &between[..between.len() - 1]].concat();
                assert_eq!(decompress(cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{format}");
                assert!(decompress(between).unwrap().is_empty());
            }
            let trailing = [&one[..], b"trailing garbage"].concat();
            let said = decompress(trailing).unwrap_err().to_string();
            assert!(!said.contains("Error"), "{format}: {said}");
        }
        let said = decompress([skippable(3), b"text".to_vec()].concat()).unwrap_err().to_string();
        assert_eq!(said, "neither zstd nor LZ4 data follows a skippable frame");
    }

    #[test]
    fn plain_data_is_not_mistaken_for_compressed_data() {
        assert_eq!(recognise(b"BZh91AY&SY...."), Some(CompressionFormat::Bzip2));
        assert_eq!(recognise(b"BZh9\x17\x72\x45\x38\x50\x90"), Some(CompressionFormat::Bzip2));
        for text in [&b"BZh"[..], b"BZh0\x31\x41\x59", b"BZhang.jpg", b"BZh9.txt", b"(", b"", b"\x1f is not enough"] {
            assert_eq!(recognise(text), None, "{text:?}");
        }
        for format in ["gzip", "zstd", "xz:1", "bzip2", "lz4"] {
            let packed = compress(format, &data()[..1000], 1);
            let format = format.parse::<Compression>().unwrap().format();
            assert_eq!(recognise(&packed[..packed.len().min(HEAD)]), Some(format));
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..10].copy_from_slice(&packed[..10]);
            header.set_size(0);
            header.set_cksum();
            assert_eq!(recognise(header.as_bytes()), None, "{format} as a name");
            assert!(!is_compressed(header.as_bytes()));
        }
    }

    #[test]
    fn the_number_of_threads_does_not_change_the_bytes() {
        for format in ["gzip", "zstd"] {
            assert!(compress(format, &data(), 1) == compress(format, &data(), 4), "{format}");
        }
    }

    #[test]
    fn levels_are_checked() {
        assert!("gzip:10".parse::<Compression>().is_err());
        assert!("zstd:x".parse::<Compression>().is_err());
        assert!("rar".parse::<Compression>().is_err());
    }
}
