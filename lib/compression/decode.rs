//! Decompression: detects the format of a stream and decodes all of its frames.
//!
//! A compressed file may consist of several concatenated frames (gzip calls
//! them members), with padding or skippable frames between them. The stream may
//! end only where a frame ends: input that ends inside of a frame is an error
//! of kind [`io::ErrorKind::UnexpectedEof`], whatever was decoded before.

use std::io::{self, BufRead, Read};

use super::input::PeekInput;
use super::{Compression, CompressionFormat, KNOWN};
use crate::archive;

/// The number of bytes that determine the format of a stream: a tar header,
/// because a member's name may look like a magic number.
pub const HEAD: usize = archive::BLOCK;

/// What follows the level in a bzip2 stream: the magic of a block (digits of
/// pi), or that of the end of an empty stream (digits of its square root).
const BZIP2_STARTS: [[u8; 6]; 2] = [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
/// zstd and LZ4 share skippable frames: 16 magic numbers, a length, and that
/// many bytes.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Plain,
    Frame(CompressionFormat),
    /// A skippable frame: the format is that of the first frame after it.
    Skippable,
}

/// The format of a stream that begins with `head`, which is the first [`HEAD`]
/// bytes or the whole stream. None if it is not compressed, and if it begins
/// with a skippable frame. A stream that consists of a part of a magic number
/// counts as compressed (and truncated) unless it could be text.
pub fn recognise(head: &[u8]) -> Option<CompressionFormat> {
    match start_of(head) {
        Start::Frame(format) => Some(format),
        Start::Plain | Start::Skippable => None,
    }
}

/// Returns true if a stream that begins with `head` (as for [`recognise`]) is
/// compressed, skippable frames included.
pub fn is_compressed(head: &[u8]) -> bool {
    start_of(head) != Start::Plain
}

impl CompressionFormat {
    /// Returns true if a stream that begins with `head` (as for [`recognise`])
    /// may be of this format.
    pub fn may_start_with(self, head: &[u8]) -> bool {
        match start_of(head) {
            Start::Plain => false,
            Start::Frame(format) => format == self,
            Start::Skippable => matches!(self, CompressionFormat::Zstd | CompressionFormat::Lz4),
        }
    }
}

/// Classifies the beginning of a stream. A valid tar header comes first: its
/// name may look like a magic number.
fn start_of(head: &[u8]) -> Start {
    if head.first_chunk().is_some_and(archive::is_header) {
        return Start::Plain; // a member may be called BZh91AY
    }
    let magic = |format: CompressionFormat| format.known().magic;
    let has_magic = |format: &CompressionFormat| match format {
        CompressionFormat::Bzip2 => is_bzip2(head),
        _ => head.starts_with(magic(*format)) || is_cut_magic(head, magic(*format)),
    };
    if let Some(format) = KNOWN.iter().map(|known| known.format).find(has_magic) {
        return Start::Frame(format);
    }
    if is_skippable(head) { Start::Skippable } else { Start::Plain }
}

/// A whole stream that is only the beginning of a magic number, unless it may
/// just as well be text.
fn is_cut_magic(head: &[u8], magic: &[u8]) -> bool {
    !head.is_empty() && head.len() < magic.len() && magic.starts_with(head) && !head.iter().all(u8::is_ascii_graphic)
}

/// Three letters and a digit begin many a text; the magic number after them
/// begins none.
fn is_bzip2(head: &[u8]) -> bool {
    let Some((start, rest)) = head.split_at_checked(4) else { return false };
    let rest = &rest[..rest.len().min(6)];
    start.starts_with(b"BZh") && (b'1'..=b'9').contains(&start[3]) && BZIP2_STARTS.iter().any(|s| s.starts_with(rest))
}

fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == SKIPPABLE
}

/// Decompresses `input` if it is compressed, and passes it through otherwise.
/// Blocks until the first bytes have arrived.
///
/// Frames are decoded one after another on the reading thread. Memory is
/// bounded by the window of the format: at most 128 MB for zstd; for xz, what
/// its header asks for (64 MB at level 9).
///
/// # Errors
///
/// Reading fails with `UnexpectedEof` if the data is cut off, and with
/// `InvalidData` or the decoder's error if it is damaged or followed by other
/// data.
pub fn decoder<'a>(input: Box<dyn Read + Send + 'a>) -> io::Result<Box<dyn Read + Send + 'a>> {
    decode(PeekInput::new(input))
}

/// The same for the file `name`. An empty file whose suffix says that it is
/// compressed is an error: no compressor writes one.
pub fn decoder_for(name: &str, input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut input = PeekInput::new(input);
    match Compression::by_suffix(name) {
        Some(compression) if input.peek(1)?.is_empty() => {
            let what = format!("an empty file is not {} data", compression.format());
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
        }
        _ => decode(input),
    }
}

fn decode<'a>(mut input: PeekInput<'a>) -> io::Result<Box<dyn Read + Send + 'a>> {
    // Few bytes suffice for most plain streams, whose writer may wait before it writes more.
    let mut start = start_of(input.peek(6)?);
    if start != Start::Plain {
        start = start_of(input.peek(HEAD)?);
    }
    let format = match start {
        Start::Plain => return Ok(Box::new(input.into_plain())),
        Start::Frame(format) => format,
        Start::Skippable => match first_frame(&mut input)? {
            Some(format) => format,
            None => return Ok(Box::new(io::empty())),
        },
    };
    let inner: Box<dyn Read + Send + 'a> = match format {
        CompressionFormat::Gzip => Box::new(FrameReader { frame: Some(FrameDecoder::gzip(input)) }),
        CompressionFormat::Bzip2 => Box::new(FrameReader { frame: Some(FrameDecoder::bzip2(input)) }),
        CompressionFormat::Lz4 => Box::new(FrameReader { frame: Some(FrameDecoder::lz4(input)) }),
        // These two handle concatenated frames themselves.
        CompressionFormat::Zstd => Box::new(zstd::Decoder::with_buffer(input)?),
        CompressionFormat::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(input)),
    };
    Ok(Box::new(Explained(inner)))
}

/// Skips to the first frame with data and returns its format; None if there are
/// only skippable ones.
fn first_frame(input: &mut PeekInput<'_>) -> io::Result<Option<CompressionFormat>> {
    skip_skippable(input)?;
    match recognise(input.peek(HEAD)?) {
        Some(format @ (CompressionFormat::Zstd | CompressionFormat::Lz4)) => Ok(Some(format)),
        None if input.peek(1)?.is_empty() => Ok(None),
        _ => Err(damaged("neither zstd nor LZ4 data follows a skippable frame")),
    }
}

/// Skips all skippable frames that come next.
fn skip_skippable(input: &mut PeekInput<'_>) -> io::Result<()> {
    while is_skippable(input.peek(4)?) {
        let &[_, _, _, _, a, b, c, d] = input.peek(8)? else { return Err(cut()) };
        let frame = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
        if io::copy(&mut input.take(frame), &mut io::sink())? < frame {
            return Err(cut());
        }
    }
    Ok(())
}

/// A decoder of one frame.
enum FrameDecoder<'a> {
    Gzip(Box<flate2::bufread::GzDecoder<PeekInput<'a>>>),
    Bzip2(bzip2::bufread::BzDecoder<PeekInput<'a>>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<PeekInput<'a>>>),
}

impl<'a> FrameDecoder<'a> {
    fn gzip(input: PeekInput<'a>) -> Self {
        FrameDecoder::Gzip(Box::new(flate2::bufread::GzDecoder::new(input)))
    }

    fn bzip2(input: PeekInput<'a>) -> Self {
        FrameDecoder::Bzip2(bzip2::bufread::BzDecoder::new(input))
    }

    fn lz4(input: PeekInput<'a>) -> Self {
        FrameDecoder::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(input)))
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            FrameDecoder::Gzip(decoder) => decoder.read(buf),
            FrameDecoder::Bzip2(decoder) => decoder.read(buf),
            FrameDecoder::Lz4(decoder) => decoder.read(buf),
        }
    }

    /// Continues with the next frame, after this one was read to its end; None
    /// at the end of the stream.
    fn next(self) -> io::Result<Option<Self>> {
        let (format, start, mut input): (_, fn(PeekInput<'a>) -> Self, _) = match self {
            FrameDecoder::Gzip(decoder) => (CompressionFormat::Gzip, FrameDecoder::gzip, decoder.into_inner()),
            FrameDecoder::Bzip2(decoder) => (CompressionFormat::Bzip2, FrameDecoder::bzip2, decoder.into_inner()),
            FrameDecoder::Lz4(decoder) => (CompressionFormat::Lz4, FrameDecoder::lz4, decoder.into_inner()),
        };
        if format == CompressionFormat::Lz4 {
            // The crate mistakes the end of the input between two blocks for the end of the frame.
            if input.has_ended() {
                return Err(cut());
            }
            skip_skippable(&mut input)?;
        } else {
            skip_zeros(&mut input)?;
        }
        let magic = format.known().magic;
        match input.peek(magic.len())? {
            [] => Ok(None),
            head if head == magic => Ok(Some(start(input))),
            head if magic.starts_with(head) => Err(cut()),
            _ => Err(damaged(&format!("data that is not {0} follows the {0} data", format.known().name))),
        }
    }
}

/// Zeros after a frame are padding, as tapes and some disk tools add it.
fn skip_zeros(input: &mut PeekInput<'_>) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let is_over = zeros < bytes.len() || zeros == 0;
        input.consume(zeros);
        if is_over {
            return Ok(());
        }
    }
}

/// Reads all frames of a stream, one after another.
struct FrameReader<'a> {
    /// None after the last.
    frame: Option<FrameDecoder<'a>>,
}

impl Read for FrameReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let n = frame.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            self.frame = self.frame.take().map(FrameDecoder::next).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// Replaces error messages that consist of the names of Rust types.
struct Explained<'a>(Box<dyn Read + Send + 'a>);

impl Read for Explained<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|err| match err.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(lz4_flex::frame::Error::DictionaryNotSupported) => damaged("the LZ4 data needs a dictionary"),
            Some(_) => damaged("the LZ4 data is damaged"),
            None if err.kind() == io::ErrorKind::UnexpectedEof => cut(),
            None => err,
        })
    }
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the compressed data is cut off")
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
