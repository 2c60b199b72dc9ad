//! Streaming tar archives: a reader and a writer.
//!
//! Only the header type comes from the `tar` crate. Its reader accepts an archive without
//! an end and stops at the first end marker; its builder writes the end marker from `Drop`,
//! on the way out of an error too, so that a failed run looks perfect. Both break the rule
//! that an archive is whole or not at all, so the two loops here are our own.

mod header;
mod reader;
mod window;
mod writer;

pub use header::Kind;
pub use reader::{Entry, Reader};
pub use writer::Writer;

/// The unit of a tar archive: headers and data start at multiples of it.
pub const BLOCK: usize = 512;

/// What is wrong with an archive, and where.
#[derive(Debug)]
pub struct Fault {
    /// Byte offset in the decompressed stream.
    pub offset: u64,
    /// Stable reason code: `cut`, `damaged`, `not_tar`, `read`.
    pub code: &'static str,
    /// The fault in words.
    pub what: String,
}

impl Fault {
    fn new(offset: u64, code: &'static str, what: impl Into<String>) -> Self {
        Fault { offset, code, what: what.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for Fault {}

/// Whether a block is the header of a member: its checksum holds.
pub fn is_header(block: &[u8; BLOCK]) -> bool {
    header::checksum_holds(block)
}

/// How many zero bytes follow `size` bytes of data.
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}
