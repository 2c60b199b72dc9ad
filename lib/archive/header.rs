//! Parses a single header block, and the extended headers (PAX, GNU) that
//! precede it.
//!
//! Everything here works on untrusted bytes: out-of-range numbers are None,
//! never wrapped.

use std::borrow::Cow;

use tar::Header;

use super::BLOCK;

/// The type of a member. Only a `File` can be part of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A hard or symbolic link.
    Link,
    /// A character or block device, or a fifo.
    Device,
    /// A file stored with holes, in GNU or PAX format.
    Sparse,
    /// A vendor-specific type.
    Unknown,
}

impl EntryKind {
    /// The reason code under which members of this type are dropped.
    pub fn code(self) -> &'static str {
        match self {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Link => "link",
            EntryKind::Device => "device",
            EntryKind::Sparse => "sparse",
            EntryKind::Unknown => "unknown_type",
        }
    }
}

/// What a header block introduces.
pub(super) enum Block {
    Member(EntryKind),
    Pax,
    GlobalPax,
    LongName,
    LongLink,
    /// The name of a volume, as `tar --label` writes it; not a member.
    Label,
    /// The rest of a member that began in another volume.
    Continuation,
}

fn view(block: &[u8; BLOCK]) -> &Header {
    Header::from_byte_slice(block)
}

/// Compares the stored checksum with the sum of unsigned bytes, or with that of
/// signed bytes, which some old writers used.
pub(super) fn checksum_holds(block: &[u8; BLOCK]) -> bool {
    let Ok(stored) = view(block).cksum() else { return false };
    let own = &block[148..156];
    let unsigned = sum(block) - own.iter().map(|&b| u32::from(b)).sum::<u32>() + 8 * u32::from(b' ');
    if stored == unsigned {
        return true;
    }
    let high = |bytes: &[u8]| bytes.iter().filter(|&&b| b >= 0x80).count() as u32;
    stored == unsigned.wrapping_sub(256 * (high(block) - high(own)))
}

/// The sum of the bytes of a block, four at a time in lanes of 16 bits. Summing
/// byte by byte took a quarter of the time spent on small members.
fn sum(block: &[u8; BLOCK]) -> u32 {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    let words = block.as_chunks().0.iter().map(|&word| u64::from_ne_bytes(word));
    let lanes = words.fold(0, |sum, word| sum + (word & LOW) + (word >> 8 & LOW));
    (0..4).map(|lane| (lanes >> (16 * lane)) as u32 & 0xffff).sum()
}

/// Decides by the type flag alone. `7` (contiguous file) is a plain file on
/// every system.
pub(super) fn classify(block: &[u8; BLOCK]) -> Block {
    match block[156] {
        b'x' | b'X' => Block::Pax,
        b'g' => Block::GlobalPax,
        b'L' => Block::LongName,
        b'K' => Block::LongLink,
        b'0' | 0 | b'7' => Block::Member(EntryKind::File),
        b'1' | b'2' => Block::Member(EntryKind::Link),
        b'3' | b'4' | b'6' => Block::Member(EntryKind::Device),
        b'5' | b'D' => Block::Member(EntryKind::Directory),
        b'V' => Block::Label,
        b'M' => Block::Continuation,
        b'S' => Block::Member(EntryKind::Sparse),
        _ => Block::Member(EntryKind::Unknown),
    }
}

/// Whether data blocks follow a header of this type. POSIX ignores the size of
/// the others, but GNU's incremental archives list the contents of a directory.
pub(super) fn has_data(block: &[u8; BLOCK], kind: EntryKind) -> bool {
    block[156] == b'D' || matches!(kind, EntryKind::File | EntryKind::Sparse | EntryKind::Unknown)
}

/// The size of a member. None if it is not a number, negative, or larger than
/// any file offset, so that sums of sizes cannot overflow.
pub(super) fn size(block: &[u8; BLOCK]) -> Option<u64> {
    number(&block[124..136]).filter(|&size| size <= i64::MAX as u64)
}

/// The modification time; 0 if it is not a number, or before 1970.
pub(super) fn mtime(block: &[u8; BLOCK]) -> u64 {
    number(&block[136..148]).unwrap_or(0)
}

/// A field in octal digits or, with the highest bit set, in binary (GNU's base
/// 256): two's complement without that bit.
fn number(field: &[u8]) -> Option<u64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 == 0 {
        let digits = field.split(|&byte| byte == 0).next().unwrap_or_default();
        return u64::from_str_radix(std::str::from_utf8(digits).ok()?.trim(), 8).ok();
    }
    let is_negative = first & 0x40 != 0;
    let start = (!is_negative).then_some(u64::from(first & 0x3f))?;
    rest.iter().try_fold(start, |number, &byte| number.checked_mul(256).map(|number| number | u64::from(byte)))
}

/// Whether a GNU sparse header, or an extension of one, announces another
/// extension.
pub(super) fn sparse_continues(block: &[u8; BLOCK], first: bool) -> bool {
    block[if first { 482 } else { 504 }] != 0
}

/// The name with its prefix. The prefix counts if the magic is that of ustar,
/// whatever version follows: GNU tar's rule.
pub(super) fn path(block: &[u8; BLOCK]) -> Cow<'_, [u8]> {
    let text = |field: std::ops::Range<usize>| block[field].split(|&b| b == 0).next().unwrap_or_default();
    let (name, prefix) = (text(0..100), text(345..500));
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return Cow::Borrowed(name);
    }
    Cow::Owned([prefix, b"/", name].concat())
}

/// What extended headers say about the next member.
#[derive(Clone, Debug, Default)]
pub(super) struct Extended {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) mtime: Option<u64>,
    pub(super) sparse: bool,
}

impl Extended {
    /// Adds the records of a PAX header, lines of the form `LENGTH
    /// KEY=VALUE\n`; later ones override earlier ones. None if they are
    /// malformed. Unknown keys are ignored.
    pub(super) fn take_pax(&mut self, mut records: &[u8]) -> Option<()> {
        while !records.is_empty() && records[0] != 0 {
            let space = records.iter().position(|&b| b == b' ')?;
            let length: usize = std::str::from_utf8(&records[..space]).ok()?.parse().ok()?;
            let line = records.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = line.iter().position(|&b| b == b'=')?;
            self.take_record(&line[..equals], &line[equals + 1..])?;
            records = &records[length..];
        }
        Some(())
    }

    /// Keeps the records that matter to us; times out of range are ignored.
    fn take_record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"size" => self.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            b"mtime" => self.mtime = whole_seconds(value).or(self.mtime),
            _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
            _ => {}
        }
        Some(())
    }

    /// Fills what is missing from the global header. Returns true if it
    /// contributed anything.
    pub(super) fn fall_back_on(&mut self, global: &Extended) -> bool {
        let mut used = false;
        if self.path.is_none() && global.path.is_some() {
            (self.path, used) = (global.path.clone(), true);
        }
        if self.size.is_none() && global.size.is_some() {
            (self.size, used) = (global.size, true);
        }
        if self.mtime.is_none() && global.mtime.is_some() {
            (self.mtime, used) = (global.mtime, true);
        }
        self.sparse |= global.sparse;
        used
    }
}

/// `1700000000.123` without the fraction; times before 1970 become 0.
fn whole_seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    if text.starts_with('-') {
        return Some(0);
    }
    text.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_all_bytes() {
        for step in 0..256 {
            let block: [u8; BLOCK] = std::array::from_fn(|i| 255 - (i * step) as u8);
            assert_eq!(sum(&block), block.iter().map(|&b| u32::from(b)).sum::<u32>(), "{step}");
        }
    }

    #[test]
    fn pax_records_are_taken_by_their_stated_length() {
        let mut extended = Extended::default();
        extended.take_pax(b"14 path=a\nb.c\n15 mtime=17.25\n9 size=9\n").unwrap();
        assert_eq!(extended.path.as_deref(), Some(&b"a\nb.c"[..]));
        assert_eq!((extended.mtime, extended.size), (Some(17), Some(9)));
    }

    #[test]
    fn a_time_out_of_range_does_not_matter() {
        let mut extended = Extended::default();
        extended.take_pax(b"15 mtime=1e+20\n12 path=a.b\n").unwrap();
        assert_eq!((extended.mtime, extended.path.as_deref()), (None, Some(&b"a.b"[..])));
    }

    #[test]
    fn malformed_pax_records_are_refused() {
        for bad in [&b"3"[..], b"99 path=a\n", b"8 path=a\n", b"x path=a\n", b"8 patha\n", b"0 path=a\n"] {
            assert!(Extended::default().take_pax(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_are_octal_or_binary_and_never_wrap() {
        let binary = |first: u8, last: u64| [&[first, 0, 0, 0][..], &last.to_be_bytes()].concat();
        for (field, expected) in [
            (b"00000000017\0".to_vec(), Some(15)),
            (b"       17 \0\0".to_vec(), Some(15)),
            (b"777777777777".to_vec(), Some((1 << 36) - 1)),
            (vec![0; 12], None),
            (b"00000000018\0".to_vec(), None),
            (binary(0x80, 1 << 40), Some(1 << 40)),
            (binary(0x80, u64::MAX), Some(u64::MAX)),
            (binary(0x81, 5), None),
            ([&[0x80, 0, 0, 1][..], &5_u64.to_be_bytes()].concat(), None),
            (vec![0xff; 12], None),
            (binary(0xc0, 5), None),
        ] {
            assert_eq!(number(&field), expected, "{field:?}");
        }
    }

    #[test]
    fn a_prefix_counts_where_the_magic_has_one() {
        for (magic, expected) in
            [(b"ustar\x0000", "p/n"), (b"ustar\0\0\0", "p/n"), (b"ustar  \0", "n"), (b"\0\0\0\0\0\0\0\0", "n")]
        {
            let mut block = [0; BLOCK];
            (block[0], block[345]) = (b'n', b'p');
            block[257..265].copy_from_slice(magic);
            assert_eq!(path(&block), expected.as_bytes(), "{magic:?}");
        }
    }

    #[test]
    fn times_lose_their_fraction_and_never_go_below_zero() {
        assert_eq!(whole_seconds(b"12.9"), Some(12));
        assert_eq!(whole_seconds(b"-3"), Some(0));
        assert_eq!(whole_seconds(b"soon"), None);
    }
}
