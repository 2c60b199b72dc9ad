//! Compressed streams: recognised by their first bytes on input, chosen by suffix or by
//! flag on output.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::str::FromStr;

use anyhow::{Result, bail};

mod gzip;

/// A compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
    /// The xz container.
    Xz,
    /// bzip2.
    Bzip2,
    /// The LZ4 frame format.
    Lz4,
}

/// How an output is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    format: Format,
    level: u32,
}

/// What is known of a format.
struct Known {
    format: Format,
    name: &'static str,
    suffixes: &'static [&'static str],
    usual_level: u32,
    highest_level: u32,
    magic: &'static [u8],
}

const KNOWN: [Known; 5] = [
    Known {
        format: Format::Gzip,
        name: "gzip",
        suffixes: &[".gz", ".tgz"],
        usual_level: 6,
        highest_level: 9,
        magic: &[0x1f, 0x8b],
    },
    Known {
        format: Format::Zstd,
        name: "zstd",
        suffixes: &[".zst", ".tzst"],
        usual_level: 3,
        highest_level: 22,
        magic: &[0x28, 0xb5, 0x2f, 0xfd],
    },
    Known {
        format: Format::Xz,
        name: "xz",
        suffixes: &[".xz", ".txz"],
        usual_level: 6,
        highest_level: 9,
        magic: &[0xfd, b'7', b'z', b'X', b'Z', 0],
    },
    Known {
        format: Format::Bzip2,
        name: "bzip2",
        suffixes: &[".bz2", ".tbz2", ".tbz"],
        usual_level: 9,
        highest_level: 9,
        magic: b"BZh",
    },
    Known {
        format: Format::Lz4,
        name: "lz4",
        suffixes: &[".lz4"],
        usual_level: 1,
        highest_level: 1,
        magic: &[0x04, 0x22, 0x4d, 0x18],
    },
];

impl Compression {
    /// gzip at its usual level.
    pub fn gzip() -> Self {
        Compression { format: Format::Gzip, level: 6 }
    }

    /// What the suffix of a name asks for.
    pub fn by_suffix(name: &str) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.suffixes.iter().any(|suffix| name.ends_with(suffix)))?;
        Some(Compression { format: known.format, level: known.usual_level })
    }

    /// Whether bytes begin as those of a known format do.
    pub fn recognises(head: &[u8]) -> bool {
        KNOWN.iter().any(|known| head.starts_with(known.magic))
    }

    /// Wraps `out` so that what is written is compressed, by up to `threads` threads where
    /// the format allows. The bytes do not depend on their number.
    pub fn encoder<W: Write + Send + 'static>(self, out: W, threads: usize) -> io::Result<Encoder<W>> {
        let level = self.level;
        Ok(match self.format {
            Format::Gzip => Encoder::Gzip(gzip::Encoder::new(out, level, threads)),
            Format::Zstd => {
                let mut encoder = zstd::Encoder::new(out, level as i32)?;
                // One worker and many give the same bytes; none gives others.
                encoder.multithread(threads.max(1) as u32)?;
                encoder.include_checksum(true)?;
                Encoder::Zstd(encoder)
            }
            Format::Xz => Encoder::Xz(liblzma::write::XzEncoder::new(out, level)),
            Format::Bzip2 => Encoder::Bzip2(bzip2::write::BzEncoder::new(out, bzip2::Compression::new(level))),
            Format::Lz4 => Encoder::Lz4(Box::new(lz4_flex::frame::FrameEncoder::new(out))),
        })
    }
}

/// `gzip`, `zstd:19`: a format and, after a colon, a level.
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

/// Compresses what is written to it. [`Encoder::finish`] ends the compressed stream; dropping it
/// leaves the stream cut off, which every decompressor notices.
pub enum Encoder<W: Write + Send + 'static> {
    /// In parallel blocks.
    Gzip(gzip::Encoder<W>),
    /// In parallel jobs.
    Zstd(zstd::Encoder<'static, W>),
    /// One thread.
    Xz(liblzma::write::XzEncoder<W>),
    /// One thread.
    Bzip2(bzip2::write::BzEncoder<W>),
    /// One thread.
    Lz4(Box<lz4_flex::frame::FrameEncoder<W>>),
}

impl<W: Write + Send + 'static> Encoder<W> {
    /// Ends the compressed stream and hands the output back.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Encoder::Gzip(encoder) => encoder.finish(),
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Xz(encoder) => encoder.finish(),
            Encoder::Bzip2(encoder) => encoder.finish(),
            Encoder::Lz4(encoder) => encoder.finish().map_err(io::Error::other),
        }
    }
}

impl<W: Write + Send + 'static> Write for Encoder<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Encoder::Gzip(encoder) => encoder.write(buf),
            Encoder::Zstd(encoder) => encoder.write(buf),
            Encoder::Xz(encoder) => encoder.write(buf),
            Encoder::Bzip2(encoder) => encoder.write(buf),
            Encoder::Lz4(encoder) => encoder.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // a flush in the middle would change the bytes
    }
}

/// The format of a stream that starts with `head`, six bytes or more; None for a plain one.
pub fn recognise(head: &[u8]) -> Option<Format> {
    KNOWN.iter().find(|known| head.starts_with(known.magic)).map(|known| known.format)
}

/// Decompresses `input` if its first bytes are those of a known format.
pub fn decoder(mut input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(6);
    (&mut input).take(6).read_to_end(&mut magic)?;
    let format = recognise(&magic);
    let whole = Cursor::new(magic).chain(input);
    let Some(format) = format else { return Ok(Box::new(whole)) };
    let whole = BufReader::with_capacity(64 * 1024, whole);
    Ok(match format {
        Format::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        Format::Zstd => Box::new(zstd::Decoder::with_buffer(whole)?),
        Format::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(whole)),
        Format::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
        Format::Lz4 => Box::new(Lz4Frames { frames: Some(lz4_flex::frame::FrameDecoder::new(whole)) }),
    })
}

/// All frames of an LZ4 file: the crate's decoder stops after one. It also takes a cut between
/// two blocks for the end; the end of the archive inside is what tells then.
struct Lz4Frames<R: BufRead> {
    frames: Option<lz4_flex::frame::FrameDecoder<R>>,
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.frames {
            let n = decoder.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            let Some(decoder) = self.frames.take() else { break };
            let mut rest = decoder.into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.frames = Some(lz4_flex::frame::FrameDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
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
    fn every_format_round_trips_also_in_several_parts() {
        for format in ["gzip", "gzip:1", "zstd", "zstd:1", "xz:1", "bzip2", "lz4"] {
            let once = compress(format, &data(), 2);
            assert!(decompress(once.clone()).unwrap() == data(), "{format}");
            let twice = [once.clone(), once].concat();
            assert_eq!(decompress(twice).unwrap().len(), 2 * data().len(), "{format} twice");
        }
    }

    #[test]
    fn gzip_works_only_where_there_is_something_to_gain() {
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
    fn a_cut_is_noticed_in_every_format() {
        for format in ["gzip", "zstd", "xz:1", "bzip2"] {
            let mut cut = compress(format, &data(), 1);
            cut.truncate(cut.len() - 3);
            assert!(decompress(cut).is_err(), "{format}");
        }
        let mut cut = compress("lz4", &data(), 1);
        cut.truncate(cut.len() / 2);
        assert!(decompress(cut).is_err(), "lz4");
    }

    #[test]
    fn the_number_of_threads_does_not_show() {
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
