//! What the reader knows of a member before its data.

use super::EntryKind;

/// The header of a member. Its data comes next in the reader.
#[derive(Debug)]
pub struct ArchiveEntry {
    /// The full name, as bytes: nothing guarantees that it is UTF-8, or safe to
    /// use as a path.
    pub path: Vec<u8>,
    /// Bytes of data that the header announces. Not verified until the data is
    /// read.
    pub size: u64,
    /// Modification time in seconds since 1970; 0 if it is missing or earlier.
    pub mtime: u64,
    /// The type of the member.
    pub kind: EntryKind,
    /// The offset of its first header block in the stream.
    pub offset: u64,
    /// The number of end-of-archive markers before it: more than 0 in the second
    /// and later ones of concatenated archives, which most other readers ignore.
    pub archive: u64,
    /// Its header blocks as they were read, extended headers included, to be
    /// copied by [`super::ArchiveWriter::raw_header`]. Empty if they are not
    /// self-contained, because a global header contributed to them; the member
    /// then needs a new header.
    pub header: Vec<u8>,
}
