//! Streaming reader and writer of tar archives: neither seeking nor temporary
//! files.
//!
//! Only the header type comes from the `tar` crate. That crate's reader accepts
//! an archive without an end and stops at the first end marker; its builder
//! writes the end marker from `Drop`, even while an error is being handled, so
//! that the output of a failed run looks complete. Both contradict the rule
//! that an archive is complete or not there at all, hence the two loops of our
//! own.
//!
//! - [`ArchiveReader`] yields one [`ArchiveEntry`] after another and checks
//!   every header. It reads concatenated archives as one stream.
//! - [`ArchiveWriter`] writes headers and data, and the end marker only in
//!   [`ArchiveWriter::finish`].
//!
//! Both use constant memory, apart from members whose data is read as a whole.
//!
//! # What is understood
//!
//! | format | reading | writing |
//! |---|---|---|
//! | v7, ustar | yes | ustar |
//! | PAX (`path`, `size`, `mtime`) | yes, also global headers | if name or size need it |
//! | GNU long names, base-256 numbers | yes | copied unchanged |
//! | GNU and PAX sparse files | skipped as one member | no |
//! | volume labels | skipped | no |
//! | multi-volume archives | refused | no |

mod entry;
mod header;
mod read_buffer;
mod reader;
mod writer;

pub use entry::ArchiveEntry;
pub use header::EntryKind;
pub use reader::ArchiveReader;
pub use writer::ArchiveWriter;

/// What a [`Fault`] says of an input of no bytes at all.
pub const EMPTY_INPUT: &str = "empty input: expected a tar archive";

/// The block size of the tar format: headers and data begin at multiples of it.
pub const BLOCK: usize = 512;

/// An error in an archive, with its position. The `Display` text is `byte
/// OFFSET: what`.
#[derive(Debug)]
pub struct Fault {
    /// Byte offset in the decompressed stream.
    pub offset: u64,
    /// Stable reason code: `cut` (ends too early), `damaged` (invalid headers),
    /// `not_tar`, or `read` (the input failed). Streams of samples add the
    /// codes of fields.
    pub code: &'static str,
    /// The fault in words.
    pub what: String,
}

/// Where the input ends if only the end marker is missing.
const BEFORE_END: &str = "before the end-of-archive blocks";

/// Where the input ends if half of the end marker is missing, too.
const IN_END: &str = "after the first of two end-of-archive blocks";

/// Where the input ends if a member is cut off.
const IN_MEMBER: &str = "in the middle of a member";

/// What is wrong if something else than an archive follows the end marker.
const AFTER_END: &str = "the data after the end of the archive is not an archive";

impl Fault {
    /// Whether all members are complete: nothing but the end-of-archive marker
    /// is missing, or nothing but the data after it is damaged.
    pub fn spares_members(&self) -> bool {
        self.what.ends_with(BEFORE_END) || self.what.ends_with(IN_END) || self.what == AFTER_END
    }

    /// Whether the input ends in the data of a member.
    pub fn cuts_member(&self) -> bool {
        self.what.ends_with(IN_MEMBER)
    }

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

/// Returns true if a block is the header of a member, which is decided by its
/// checksum alone. Used to tell tar from other formats.
pub fn is_header(block: &[u8; BLOCK]) -> bool {
    header::checksum_holds(block)
}

/// The number of zero bytes that follow `size` bytes of data, 0 to 511.
///
/// ```
/// assert_eq!(tarpipe::archive::padding(513), 511);
/// ```
pub fn padding(size: u64) -> usize {
    (BLOCK - (size % BLOCK as u64) as usize) % BLOCK
}
