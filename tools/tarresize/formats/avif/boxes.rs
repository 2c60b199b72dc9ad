//! Reads the boxes of an AVIF file: which items make up the image, where their data is, and their properties.

use std::collections::HashMap;

use crate::tarresize::failure::{ImageFailure, ImageFailureCode};

/// Files that list more boxes, extents or references are refused, so that lists take little memory: a grid has at most
/// 65,536 tiles.
const MAX_ENTRIES: usize = 1 << 18;

fn check_count(entries: usize) -> Result<(), ImageFailure> {
    if entries > MAX_ENTRIES {
        return Err(ImageFailure::decode(format!("AVIF with more than {MAX_ENTRIES} boxes, extents or references")));
    }
    Ok(())
}

/// A box: its type and contents.
#[derive(Clone, Copy)]
pub struct FileBox<'a> {
    pub kind: [u8; 4],
    pub body: &'a [u8],
}

/// Splits data into boxes. A box that exceeds the data is reported as truncated.
pub fn boxes(mut data: &[u8]) -> Result<Vec<FileBox<'_>>, ImageFailure> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let mut reader = Reader { data };
        let (len, kind) = (reader.number(4)?, reader.array::<4>()?);
        let len = match len {
            0 => data.len() as u64,
            1 => reader.number(8)?,
            len => len,
        };
        let header = data.len() - reader.data.len();
        let len = usize::try_from(len).map_err(|_| ends_early())?;
        if len < header {
            return Err(ImageFailure::decode("invalid box length"));
        }
        found.push(FileBox { kind, body: data.get(header..len).ok_or_else(ends_early)? });
        check_count(found.len())?;
        data = &data[len..];
    }
    Ok(found)
}

/// The first box of a type.
pub fn find<'a>(boxes: &[FileBox<'a>], kind: &[u8; 4]) -> Option<&'a [u8]> {
    boxes.iter().find(|found| found.kind == *kind).map(|found| found.body)
}

pub fn ends_early() -> ImageFailure {
    ImageFailure::new(ImageFailureCode::Truncated, "unexpected end of data")
}

/// Reads big-endian numbers from the start of data.
pub struct Reader<'a> {
    pub data: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], ImageFailure> {
        let (taken, rest) = self.data.split_at_checked(len).ok_or_else(ends_early)?;
        self.data = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageFailure> {
        self.bytes(N)?.try_into().map_err(ImageFailure::decode)
    }

    /// A number of up to 8 bytes; 0 for no bytes.
    pub fn number(&mut self, len: usize) -> Result<u64, ImageFailure> {
        Ok(self.bytes(len)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// Version and flags of a full box.
    pub fn version(&mut self) -> Result<(u8, u32), ImageFailure> {
        let word = self.number(4)?;
        Ok(((word >> 24) as u8, word as u32 & 0xff_ffff))
    }
}

/// Where the data of an item is.
struct Location {
    /// Whether positions count from the start of the `idat` box instead of the file.
    in_idat: bool,
    extents: Vec<(u64, u64)>,
}

/// The items of a file.
pub struct Items<'a> {
    pub file: &'a [u8],
    idat: &'a [u8],
    pub primary: u64,
    kinds: HashMap<u64, [u8; 4]>,
    locations: HashMap<u64, Location>,
    /// The type of the reference, the item it is from, and the item it is to.
    references: Vec<([u8; 4], u64, u64)>,
    properties: Vec<FileBox<'a>>,
    /// An item, and the number of a property of it.
    associations: Vec<(u64, usize)>,
}

impl<'a> Items<'a> {
    /// Reads the `meta` box of a file.
    pub fn read(file: &'a [u8]) -> Result<Self, ImageFailure> {
        // Only what precedes `meta` must be whole here; the data behind it is checked when it is used.
        let meta = meta_body(file)?;
        let children = boxes(meta.get(4..).ok_or_else(ends_early)?)?;
        let missing = |name: &str| ImageFailure::decode(format!("AVIF without {name}"));
        let iprp = boxes(find(&children, b"iprp").ok_or_else(|| missing("properties"))?)?;
        let mut associations = Vec::new();
        for list in iprp.iter().filter(|found| found.kind == *b"ipma") {
            read_associations(list.body, &mut associations)?;
        }
        Ok(Items {
            file,
            idat: find(&children, b"idat").unwrap_or_default(),
            primary: read_primary(find(&children, b"pitm").ok_or_else(|| missing("primary item"))?)?,
            kinds: read_kinds(find(&children, b"iinf").ok_or_else(|| missing("items"))?)?,
            locations: read_locations(find(&children, b"iloc").ok_or_else(|| missing("locations"))?)?,
            references: find(&children, b"iref").map_or(Ok(Vec::new()), read_references)?,
            properties: boxes(find(&iprp, b"ipco").ok_or_else(|| missing("properties"))?)?,
            associations,
        })
    }

    pub fn kind(&self, id: u64) -> Option<[u8; 4]> {
        self.kinds.get(&id).copied()
    }

    /// The items of a type that refer to `id`, by this type of reference.
    pub fn referring(&self, reference: &[u8; 4], id: u64) -> impl Iterator<Item = u64> {
        self.references.iter().filter(move |(kind, _, to)| kind == reference && *to == id).map(|(_, from, _)| *from)
    }

    /// The items that `id` refers to, in order.
    pub fn referred(&self, reference: &[u8; 4], id: u64) -> impl Iterator<Item = u64> {
        self.references.iter().filter(move |(kind, from, _)| kind == reference && *from == id).map(|(_, _, to)| *to)
    }

    /// The properties of an item, in order.
    pub fn properties(&self, id: u64) -> impl Iterator<Item = FileBox<'a>> {
        let numbers = self.associations.iter().filter(move |(item, _)| *item == id).map(|(_, number)| *number);
        numbers.filter_map(|number| self.properties.get(number.checked_sub(1)?).copied())
    }

    pub fn property(&self, id: u64, kind: &[u8; 4]) -> Option<&'a [u8]> {
        self.properties(id).find(|found| found.kind == *kind).map(|found| found.body)
    }

    /// The data of an item.
    pub fn data(&self, id: u64) -> Result<Vec<u8>, ImageFailure> {
        let location = self.locations.get(&id).ok_or_else(|| ImageFailure::decode("AVIF item without data"))?;
        let from = if location.in_idat { self.idat } else { self.file };
        let mut data = Vec::new();
        for &(at, len) in &location.extents {
            let start = usize::try_from(at).map_err(|_| ends_early())?;
            // A length of 0 means up to the end.
            let len = if len == 0 { from.len().saturating_sub(start) as u64 } else { len };
            let end = usize::try_from(len).ok().and_then(|len| start.checked_add(len)).ok_or_else(ends_early)?;
            let part = from.get(start..end).ok_or_else(ends_early)?;
            if data.len() + part.len() > self.file.len() {
                return Err(ImageFailure::decode("AVIF item larger than its file"));
            }
            data.extend_from_slice(part);
        }
        Ok(data)
    }
}

/// The contents of the `meta` box, which follows `ftyp` and a few others.
fn meta_body(file: &[u8]) -> Result<&[u8], ImageFailure> {
    let mut reader = Reader { data: file };
    loop {
        let start = reader.data;
        let (len, kind) = (reader.number(4)?, reader.array::<4>()?);
        let len = match len {
            0 => start.len() as u64,
            1 => reader.number(8)?,
            len => len,
        };
        let header = start.len() - reader.data.len();
        let len = usize::try_from(len).map_err(|_| ends_early())?;
        let body = len.checked_sub(header).ok_or_else(|| ImageFailure::decode("invalid box length"))?;
        let body = reader.bytes(body)?;
        if kind == *b"meta" {
            return Ok(body);
        }
    }
}

fn read_primary(body: &[u8]) -> Result<u64, ImageFailure> {
    let mut reader = Reader { data: body };
    let (version, _) = reader.version()?;
    reader.number(if version == 0 { 2 } else { 4 })
}

fn read_kinds(body: &[u8]) -> Result<HashMap<u64, [u8; 4]>, ImageFailure> {
    let mut reader = Reader { data: body };
    let (version, _) = reader.version()?;
    reader.number(if version == 0 { 2 } else { 4 })?;
    let mut kinds = HashMap::new();
    for entry in boxes(reader.data)?.into_iter().filter(|entry| entry.kind == *b"infe") {
        let mut reader = Reader { data: entry.body };
        let (version, _) = reader.version()?;
        let id = reader.number(if version < 3 { 2 } else { 4 })?;
        reader.number(2)?;
        kinds.entry(id).or_insert(reader.array::<4>()?);
    }
    Ok(kinds)
}

fn read_locations(body: &[u8]) -> Result<HashMap<u64, Location>, ImageFailure> {
    let mut reader = Reader { data: body };
    let (version, _) = reader.version()?;
    let sizes = reader.number(2)?;
    let size = |shift: u32| (sizes >> shift & 15) as usize;
    let (offset_size, length_size, base_size) = (size(12), size(8), size(4));
    let index_size = if version == 0 { 0 } else { size(0) };
    let count = reader.number(if version < 2 { 2 } else { 4 })?;
    let (mut locations, mut entries) = (HashMap::new(), 0);
    for _ in 0..count {
        let id = reader.number(if version < 2 { 2 } else { 4 })?;
        let method = if version == 0 { 0 } else { reader.number(2)? & 15 };
        reader.number(2)?;
        let base = reader.number(base_size)?;
        let mut extents = Vec::new();
        for _ in 0..reader.number(2)? {
            reader.number(index_size)?;
            let (offset, len) = (reader.number(offset_size)?, reader.number(length_size)?);
            extents.push((base.saturating_add(offset), len));
            entries += 1;
            check_count(entries)?;
        }
        locations.entry(id).or_insert(Location { in_idat: method == 1, extents });
    }
    Ok(locations)
}

fn read_references(body: &[u8]) -> Result<Vec<([u8; 4], u64, u64)>, ImageFailure> {
    let mut reader = Reader { data: body };
    let (version, _) = reader.version()?;
    let id_len = if version == 0 { 2 } else { 4 };
    let mut references = Vec::new();
    for list in boxes(reader.data)? {
        let mut reader = Reader { data: list.body };
        let from = reader.number(id_len)?;
        for _ in 0..reader.number(2)? {
            references.push((list.kind, from, reader.number(id_len)?));
            check_count(references.len())?;
        }
    }
    Ok(references)
}

fn read_associations(body: &[u8], associations: &mut Vec<(u64, usize)>) -> Result<(), ImageFailure> {
    let mut reader = Reader { data: body };
    let (version, flags) = reader.version()?;
    for _ in 0..reader.number(4)? {
        let id = reader.number(if version == 0 { 2 } else { 4 })?;
        for _ in 0..reader.number(1)? {
            let number = if flags & 1 == 1 { reader.number(2)? & 0x7fff } else { reader.number(1)? & 0x7f };
            associations.push((id, number as usize));
            check_count(associations.len())?;
        }
    }
    Ok(())
}
