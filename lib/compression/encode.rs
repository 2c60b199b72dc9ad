//! The compressing writer, whatever its format.

use std::io::{self, Write};

use super::gzip;

/// Compresses what is written to it. [`Encoder::finish`] ends the compressed
/// stream; dropping the encoder leaves the stream truncated, which every
/// decompressor notices. `flush` does nothing, because flushing would change
/// the bytes.
pub enum Encoder<W: Write + Send + 'static> {
    /// In parallel blocks.
    Gzip(gzip::GzipEncoder<W>),
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
    /// Ends the compressed stream and returns the output.
    ///
    /// # Errors
    ///
    /// Those of the output, or of a compression thread. An encoder that is
    /// dropped instead leaves a truncated stream.
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
        Ok(()) // flushing in the middle would change the bytes
    }
}
