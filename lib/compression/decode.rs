//! Reading compressed streams: which format a stream has, and every frame of it to its end.
//!
//! A compressed file may consist of several frames (gzip calls them members) in a row, with padding or skippable
//! frames between them. The stream ends where a frame ends and nowhere else: input that ends inside a frame is an
//! error of the kind [`io::ErrorKind::UnexpectedEof`], whatever was decoded before it.

use std::io::{self, BufRead, Read};

use super::input::Input;
use super::{Compression, Format, KNOWN};
use crate::archive;

/// How many bytes of a stream tell its format: a tar header, which no magic number overrules.
pub const HEAD: usize = archive::BLOCK;

/// Bits that follow the level in a bzip2 stream: a block (the digits of pi), or the end of an empty stream (of its root).
const BZIP2_STARTS: [[u8; 6]; 2] = [[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], [0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
/// zstd and LZ4 have the same skippable frames: 16 magic numbers, the length, and as many bytes.
const SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// How a stream starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Plain,
    Frame(Format),
    /// A skippable frame: the first frame after it decides.
    Skippable,
}

/// The format of a stream that starts with `head`, which holds [`HEAD`] bytes or the whole stream; None for a plain
/// one, and for one that starts with a skippable frame.
pub fn recognise(head: &[u8]) -> Option<Format> {
    match start_of(head) {
        Start::Frame(format) => Some(format),
        Start::Plain | Start::Skippable => None,
    }
}

/// Whether a stream that starts with `head`, which holds [`HEAD`] bytes or the whole stream, is compressed.
pub fn is_compressed(head: &[u8]) -> bool {
    start_of(head) != Start::Plain
}

impl Format {
    /// Whether a stream that starts with `head`, which holds [`HEAD`] bytes or the whole stream, may be one of this format.
    pub fn may_start_with(self, head: &[u8]) -> bool {
        match start_of(head) {
            Start::Plain => false,
            Start::Frame(format) => format == self,
            Start::Skippable => matches!(self, Format::Zstd | Format::Lz4),
        }
    }
}

fn start_of(head: &[u8]) -> Start {
    if head.first_chunk().is_some_and(archive::is_header) {
        return Start::Plain; // a member may be called BZh or worse
    }
    let magic = |format: Format| format.known().magic;
    let has_magic = |format: &Format| match format {
        Format::Bzip2 => is_bzip2(head),
        _ => head.starts_with(magic(*format)) || is_cut_magic(head, magic(*format)),
    };
    if let Some(format) = KNOWN.iter().map(|known| known.format).find(has_magic) {
        return Start::Frame(format);
    }
    if is_skippable(head) { Start::Skippable } else { Start::Plain }
}

/// A whole stream that is no more than the start of a magic number, unless it may as well be text.
fn is_cut_magic(head: &[u8], magic: &[u8]) -> bool {
    !head.is_empty() && head.len() < magic.len() && magic.starts_with(head) && !head.iter().all(u8::is_ascii_graphic)
}

/// Three letters and a digit begin many a text; the number behind them begins none.
fn is_bzip2(head: &[u8]) -> bool {
    let Some((start, rest)) = head.split_at_checked(4) else { return false };
    let rest = &rest[..rest.len().min(6)];
    start.starts_with(b"BZh") && (b'1'..=b'9').contains(&start[3]) && BZIP2_STARTS.iter().any(|s| s.starts_with(rest))
}

fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == SKIPPABLE
}

/// Decompresses `input` if it starts as a compressed stream does, and hands it on as it is otherwise.
pub fn decoder(input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    decode(Input::new(input))
}

/// The same for the file `name`, which cannot be empty where its suffix says that it is compressed.
pub fn decoder_for(name: &str, input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut input = Input::new(input);
    match Compression::by_suffix(name) {
        Some(compression) if input.peek(1)?.is_empty() => {
            let what = format!("an empty file is not {} data", compression.format());
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, what))
        }
        _ => decode(input),
    }
}

fn decode(mut input: Input) -> io::Result<Box<dyn Read + Send>> {
    // Few bytes rule most plain streams out, which may come from someone who waits before writing more.
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
    let inner: Box<dyn Read + Send> = match format {
        Format::Gzip => Box::new(Frames { frame: Some(Frame::gzip(input)) }),
        Format::Bzip2 => Box::new(Frames { frame: Some(Frame::bzip2(input)) }),
        Format::Lz4 => Box::new(Frames { frame: Some(Frame::lz4(input)) }),
        // These two find the frames by themselves.
        Format::Zstd => Box::new(zstd::Decoder::with_buffer(input)?),
        Format::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(input)),
    };
    Ok(Box::new(Explained(inner)))
}

/// Skips to the first frame with data; None where there are only skippable ones.
fn first_frame(input: &mut Input) -> io::Result<Option<Format>> {
    skip_skippable(input)?;
    match recognise(input.peek(HEAD)?) {
        Some(format @ (Format::Zstd | Format::Lz4)) => Ok(Some(format)),
        None if input.peek(1)?.is_empty() => Ok(None),
        _ => Err(damaged("neither zstd nor LZ4 data follows a skippable frame")),
    }
}

/// Skips all skippable frames that come next.
fn skip_skippable(input: &mut Input) -> io::Result<()> {
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
enum Frame {
    Gzip(Box<flate2::bufread::GzDecoder<Input>>),
    Bzip2(bzip2::bufread::BzDecoder<Input>),
    Lz4(Box<lz4_flex::frame::FrameDecoder<Input>>),
}

impl Frame {
    fn gzip(input: Input) -> Self {
        Frame::Gzip(Box::new(flate2::bufread::GzDecoder::new(input)))
    }

    fn bzip2(input: Input) -> Self {
        Frame::Bzip2(bzip2::bufread::BzDecoder::new(input))
    }

    fn lz4(input: Input) -> Self {
        Frame::Lz4(Box::new(lz4_flex::frame::FrameDecoder::new(input)))
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Frame::Gzip(decoder) => decoder.read(buf),
            Frame::Bzip2(decoder) => decoder.read(buf),
            Frame::Lz4(decoder) => decoder.read(buf),
        }
    }

    /// Goes to the frame after this one, which was read to its end; None at the end of the stream.
    fn next(self) -> io::Result<Option<Self>> {
        let (format, start, mut input): (_, fn(Input) -> Self, _) = match self {
            Frame::Gzip(decoder) => (Format::Gzip, Frame::gzip, decoder.into_inner()),
            Frame::Bzip2(decoder) => (Format::Bzip2, Frame::bzip2, decoder.into_inner()),
            Frame::Lz4(decoder) => (Format::Lz4, Frame::lz4, decoder.into_inner()),
        };
        if format == Format::Lz4 {
            // The crate takes the end of the input between two blocks for the end of the frame.
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
fn skip_zeros(input: &mut Input) -> io::Result<()> {
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

/// All frames of a stream, one after another.
struct Frames {
    /// None after the last.
    frame: Option<Frame>,
}

impl Read for Frames {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let n = frame.read(buf)?;
            if n > 0 || buf.is_empty() {
                return Ok(n);
            }
            self.frame = self.frame.take().map(Frame::next).transpose()?.flatten();
        }
        Ok(0)
    }
}

/// Says in words what the crates say in the names of their types.
struct Explained(Box<dyn Read + Send>);

impl Read for Explained {
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
