//! Reads the first directory of a TIFF or BigTIFF: its tags and their values.

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};

/// The first directory of a file.
pub struct Directory<'a> {
    file: &'a [u8],
    little_endian: bool,
    big: bool,
    entries: Vec<Entry>,
}

struct Entry {
    tag: u16,
    kind: u16,
    count: u64,
    /// Where the value is in the file, or its offset if it is too large for the entry.
    value_at: usize,
}

impl<'a> Directory<'a> {
    /// Reads the entries of the first directory.
    pub fn read(file: &'a [u8]) -> Result<Self, ImageFailure> {
        let little_endian = file.starts_with(b"II");
        let mut directory = Directory { file, little_endian, big: false, entries: Vec::new() };
        directory.big = match directory.unsigned(2, 2)? {
            42 => false,
            43 => true,
            other => return Err(ImageFailure::decode(format!("TIFF version {other}"))),
        };
        let (pointer_at, width) = if directory.big { (8, 8) } else { (4, 4) };
        let start = position(directory.unsigned(pointer_at, width)?)?;
        let (count_width, entry_len) = if directory.big { (8, 20) } else { (2, 12) };
        let count = position(directory.unsigned(start, count_width)?)?;
        for i in 0..count {
            let at = start.saturating_add(count_width).saturating_add(i.saturating_mul(entry_len));
            let entry = directory.entry(at)?;
            directory.entries.push(entry);
        }
        Ok(directory)
    }

    fn entry(&self, at: usize) -> Result<Entry, ImageFailure> {
        let (tag, kind) = (self.unsigned(at, 2)? as u16, self.unsigned(at + 2, 2)? as u16);
        let width = if self.big { 8 } else { 4 };
        let count = self.unsigned(at + 4, width)?;
        Ok(Entry { tag, kind, count, value_at: at + 4 + width })
    }

    pub fn is_little_endian(&self) -> bool {
        self.little_endian
    }

    /// The bytes of a value, in the byte order of the file.
    pub fn bytes(&self, tag: u16) -> Result<Option<&'a [u8]>, ImageFailure> {
        let Some(entry) = self.entries.iter().find(|entry| entry.tag == tag) else { return Ok(None) };
        let Some(width) = width_of(entry.kind) else { return Ok(None) };
        let len = position(entry.count.saturating_mul(width as u64))?;
        let pointer_width = if self.big { 8 } else { 4 };
        let at = if len <= pointer_width {
            entry.value_at
        } else {
            position(self.unsigned(entry.value_at, pointer_width)?)?
        };
        let end = at.checked_add(len).ok_or_else(ends_early)?;
        self.file.get(at..end).map(Some).ok_or_else(ends_early)
    }

    /// The unsigned numbers of a value.
    pub fn numbers(&self, tag: u16) -> Result<Option<Vec<u64>>, ImageFailure> {
        let Some(bytes) = self.bytes(tag)? else { return Ok(None) };
        let kind = self.entries.iter().find(|entry| entry.tag == tag).map_or(0, |entry| entry.kind);
        match (kind, width_of(kind)) {
            (1 | 3 | 4 | 13 | 16, Some(width)) => {
                Ok(Some(bytes.chunks_exact(width).map(|bytes| number(bytes, self.little_endian)).collect()))
            }
            _ => Err(ImageFailure::decode(format!("TIFF tag {tag} is not a number"))),
        }
    }

    /// The first number of a value, or `default` if the tag is missing.
    pub fn number_or(&self, tag: u16, default: u64) -> Result<u64, ImageFailure> {
        Ok(self.numbers(tag)?.and_then(|numbers| numbers.first().copied()).unwrap_or(default))
    }

    fn unsigned(&self, at: usize, width: usize) -> Result<u64, ImageFailure> {
        let bytes = at.checked_add(width).and_then(|end| self.file.get(at..end)).ok_or_else(ends_early)?;
        Ok(number(bytes, self.little_endian))
    }
}

/// The bytes of one value of a field type, except of types that are not used here.
fn width_of(kind: u16) -> Option<usize> {
    match kind {
        1 | 2 | 6 | 7 => Some(1),
        3 | 8 => Some(2),
        4 | 9 | 11 | 13 => Some(4),
        5 | 10 | 12 | 16 | 17 | 18 => Some(8),
        _ => None,
    }
}

/// An unsigned number of up to 8 bytes.
pub fn number(bytes: &[u8], little_endian: bool) -> u64 {
    let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
    if little_endian { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
}

fn position(number: u64) -> Result<usize, ImageFailure> {
    usize::try_from(number).map_err(|_| ends_early())
}

fn ends_early() -> ImageFailure {
    ImageFailure::new(ImageFailureCode::Truncated, "unexpected end of data")
}
