//! Writes members to a stream of bytes: small pieces are gathered, large ones
//! written directly.

use std::io::{self, IoSlice, Write};

use tar::Header;

use super::{BLOCK, padding};

/// Gathered bytes are written once there are this many.
const GATHER: usize = 64 * 1024;
/// Data of at least this size is written without copying it.
const LARGE: usize = 16 * 1024;
/// The largest size that fits into the octal field of a ustar header.
const MAX_OCTAL: u64 = 0o77_777_777_777;

/// Writes a tar archive from front to back. It is complete only after
/// [`ArchiveWriter::finish`]; dropping the writer leaves it without an end, on
/// purpose, so that readers notice.
///
/// A member is one header call followed by any number of
/// [`ArchiveWriter::data`] calls, which must add up to the announced size; this
/// is not checked. Padding is written automatically. The output depends on the
/// arguments only: there are no times or names of the machine in it.
///
/// After an error the writer must not be used any further.
pub struct ArchiveWriter<W> {
    out: W,
    gathered: Vec<u8>,
    offset: u64,
    in_member: u64,
}

impl<W: Write> ArchiveWriter<W> {
    /// Writes to `out`, which should be unbuffered: the writer gathers small
    /// pieces itself.
    pub fn new(out: W) -> Self {
        ArchiveWriter { out, gathered: Vec::with_capacity(GATHER + LARGE), offset: 0, in_member: 0 }
    }

    /// The offset in the archive at which the next header will begin or,
    /// directly after a header call, the data.
    pub fn offset(&self) -> u64 {
        self.offset + padding(self.in_member) as u64
    }

    /// Begins a member with header blocks that were read from another archive
    /// ([`super::ArchiveEntry::header`]). Zeros at the end of the last block
    /// may be missing.
    ///
    /// # Errors
    ///
    /// Those of the output. The blocks are not checked: they must be valid
    /// headers.
    pub fn raw_header(&mut self, blocks: &[u8]) -> io::Result<()> {
        self.end_member()?;
        self.put(blocks)?;
        self.put(&[0; BLOCK][..padding(blocks.len() as u64)])
    }

    /// Begins a member of `size` bytes with a new header: ustar, mode 0444,
    /// owner `bigdata` (1000), as WebDataset's writer has it. A PAX header
    /// precedes it only if the name (over 100 bytes, or 255 split at a slash)
    /// or the size (8 GB and more) does not fit.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn new_header(&mut self, path: &str, size: u64, mtime: u64) -> io::Result<()> {
        self.end_member()?;
        let mut header = plain_header(mtime);
        let mut records = Vec::new();
        if !set_path(&mut header, path) {
            records.extend(pax_record("path", path));
        }
        if size > MAX_OCTAL {
            records.extend(pax_record("size", &size.to_string()));
        }
        if !records.is_empty() {
            self.pax_header(path, &records, mtime)?;
        }
        header.set_size(size.min(MAX_OCTAL));
        header.set_cksum();
        self.put(header.as_bytes())
    }

    /// Writes data of the current member.
    ///
    /// # Errors
    ///
    /// Those of the output. The caller must write exactly the number of bytes
    /// that the header announces; this is not checked.
    pub fn data(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.in_member += bytes.len() as u64;
        self.put(bytes)
    }

    /// Ends the current member and writes everything gathered, for a reader
    /// that waits for it.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_member()?;
        self.out.write_all(&self.gathered)?;
        self.gathered.clear();
        self.out.flush()
    }

    /// Writes the end of the archive and everything gathered, and returns the
    /// output. The output itself is not closed or committed.
    ///
    /// # Errors
    ///
    /// Those of the output. A writer that is dropped instead leaves an archive
    /// without its end, which readers refuse.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_member()?;
        self.put(&[0; 2 * BLOCK])?;
        self.out.write_all(&self.gathered)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes a PAX header for the next member, as a member of its own.
    fn pax_header(&mut self, path: &str, records: &[u8], mtime: u64) -> io::Result<()> {
        let mut header = plain_header(mtime);
        let base = path.rsplit('/').next().unwrap_or(path);
        let short: String = base.chars().filter(char::is_ascii).take(80).collect();
        set_path(&mut header, &format!("PaxHeaders/{short}"));
        header.set_entry_type(tar::EntryType::XHeader);
        header.set_size(records.len() as u64);
        header.set_cksum();
        self.put(header.as_bytes())?;
        self.data(records)?;
        self.end_member()
    }

    /// Pads the current member to a whole block.
    fn end_member(&mut self) -> io::Result<()> {
        let pad = padding(self.in_member);
        self.in_member = 0;
        self.put(&[0; BLOCK][..pad])
    }

    /// Gathers or writes bytes; all output goes through here.
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.offset += bytes.len() as u64;
        if bytes.len() >= LARGE {
            write_both(&mut self.out, &self.gathered, bytes)?;
            self.gathered.clear();
            return Ok(());
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHER {
            self.out.write_all(&self.gathered)?;
            self.gathered.clear();
        }
        Ok(())
    }
}

/// Writes `first` and `second`, in one system call if possible.
fn write_both(out: &mut impl Write, first: &[u8], second: &[u8]) -> io::Result<()> {
    if first.is_empty() {
        return out.write_all(second);
    }
    let written = loop {
        match out.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
            Ok(n) => break n,
        }
    };
    out.write_all(&first[written.min(first.len())..])?;
    out.write_all(&second[written.saturating_sub(first.len())..])
}

/// What all new headers have in common.
fn plain_header(mtime: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_mode(0o444);
    header.set_uid(1000);
    header.set_gid(1000);
    header.set_mtime(mtime);
    header.set_entry_type(tar::EntryType::Regular);
    if let Some(ustar) = header.as_ustar_mut() {
        ustar.uname[..7].copy_from_slice(b"bigdata");
        ustar.gname[..7].copy_from_slice(b"bigdata");
    }
    header
}

/// Stores `path` in the name and prefix fields. If it does not fit, returns
/// false and stores as much as fits into the name field.
fn set_path(header: &mut Header, path: &str) -> bool {
    let bytes = path.as_bytes();
    let Some(ustar) = header.as_ustar_mut() else { return false };
    if bytes.len() <= ustar.name.len() {
        ustar.name[..bytes.len()].copy_from_slice(bytes);
        return true;
    }
    let longest_prefix = ustar.prefix.len().min(bytes.len() - 2);
    let slash = bytes[..=longest_prefix].iter().rposition(|&b| b == b'/');
    if let Some(slash) = slash.filter(|&slash| slash > 0 && bytes.len() - slash - 1 <= ustar.name.len()) {
        ustar.prefix[..slash].copy_from_slice(&bytes[..slash]);
        ustar.name[..bytes.len() - slash - 1].copy_from_slice(&bytes[slash + 1..]);
        return true;
    }
    ustar.name.copy_from_slice(&bytes[..100]);
    false
}

/// `LENGTH KEY=VALUE\n`, where the length includes its own digits.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    format!("{length} {key}={value}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pax_records_count_their_own_length() {
        for n in [1, 5, 85, 86, 87, 88, 983, 984, 985, 986, 987] {
            let record = pax_record("path", &"x".repeat(n));
            let stated: usize = std::str::from_utf8(&record).unwrap().split(' ').next().unwrap().parse().unwrap();
            assert_eq!(stated, record.len());
        }
    }

    #[test]
    fn long_paths_are_split_at_a_slash_where_both_halves_fit() {
        let fits = |path: &str| set_path(&mut Header::new_ustar(), path);
        assert!(fits(&"n".repeat(100)));
        assert!(!fits(&"n".repeat(101)));
        assert!(fits(&format!("{}/{}", "p".repeat(155), "n".repeat(100))));
        assert!(!fits(&format!("{}/{}", "p".repeat(156), "n".repeat(99))));
        assert!(!fits(&format!("{}/{}", "p".repeat(10), "n".repeat(101))));
    }

    #[test]
    fn an_output_that_takes_one_byte_at_a_time_gets_everything() {
        struct Slow(Vec<u8>);
        impl Write for Slow {
            fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
                self.0.extend(buf.first());
                Ok(buf.len().min(1))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut writer = ArchiveWriter::new(Slow(Vec::new()));
        let data = vec![7; LARGE + 3];
        writer.new_header("a.bin", data.len() as u64, 0).unwrap();
        writer.data(&data).unwrap();
        let bytes = writer.finish().unwrap().0;
        assert_eq!(bytes.len(), 512 + LARGE + 512 + 1024);
        assert_eq!(&bytes[512..512 + data.len()], &data[..]);
    }
}
