//! Samples as bodies of records: headers without the zeros at their end, data
//! without padding and without what the sort key contains already. Never larger
//! than in an archive.
//!
//! The body is the sample's key, the number of members, and for each member its
//! field (if fields are stored), its header and the length of its data,
//! followed by the data of all members. Numbers are varints. The lowest bit of
//! a length says that the bytes are the end of the record's key and are not
//! stored again: the key of a sample that is sorted by key, or the data of a
//! field that it is sorted by.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};

use super::{SortRecord, varint};
use crate::archive::ArchiveWriter;
use crate::sample::fields::FieldSet;
use crate::sample::{Member, Sample};

/// Converts samples to the body of a [`SortRecord`] and back. The key of the
/// record must be the same in both directions.
pub struct Packer {
    with_fields: bool,
    head: Vec<u8>,
}

impl Packer {
    /// `with_fields` stores the names of the fields too, which [`KeyGroups`]
    /// needs.
    pub fn new(with_fields: bool) -> Self {
        Packer { with_fields, head: Vec::new() }
    }

    /// Packs a sample that is sorted by `key`. Returns the parts of the body
    /// for [`super::Sorter::push`], which borrow the data of the sample instead
    /// of copying it.
    pub fn pack<'a>(&'a mut self, sample: &'a Sample, key: &[u8]) -> Result<Vec<&'a [u8]>> {
        self.head.clear();
        put_text(&mut self.head, sample.key.as_bytes(), key);
        varint::put(&mut self.head, sample.members.len() as u64);
        for member in &sample.members {
            if self.with_fields {
                put_text(&mut self.head, member.field.as_bytes(), b"");
            }
            put_header(&mut self.head, sample, member)?;
            let in_key = is_in(&member.data, key);
            varint::put(&mut self.head, (member.data.len() as u64) << 1 | u64::from(in_key));
        }
        let data = sample.members.iter().map(|member| member.data.as_slice()).filter(|data| !is_in(data, key));
        Ok(std::iter::once(self.head.as_slice()).chain(data).collect())
    }

    /// Unpacks a record. Borrows from the record; fails if the spilled data was
    /// damaged.
    pub fn unpack<'a>(&self, record: &SortRecord<'a>) -> Result<PackedSample<'a>> {
        let mut body = record.body;
        self.parse(record.key, &mut body).context("the temporary file is damaged")
    }

    /// None if the body is malformed.
    fn parse<'a>(&self, key: &'a [u8], body: &mut &'a [u8]) -> Option<PackedSample<'a>> {
        let name = std::str::from_utf8(take_text(body, key)?).ok()?;
        let mut members = Vec::new();
        for _ in 0..varint::take(body)? {
            let field = if self.with_fields { std::str::from_utf8(take_text(body, b"")?).ok()? } else { "" };
            let header = take_text(body, b"")?;
            members.push((field, header, varint::take(body)?));
        }
        let mut packed = PackedSample { key: name, members: Vec::with_capacity(members.len()) };
        for (field, header, size) in members {
            let bytes = (size >> 1) as usize;
            let data = if size & 1 == 1 { key.get(key.len().checked_sub(bytes)?..)? } else { body.split_off(..bytes)? };
            packed.members.push(PackedMember { field, header, data });
        }
        Some(packed)
    }
}

/// An unpacked sample, borrowed from its record.
pub struct PackedSample<'a> {
    /// The key of the sample.
    pub key: &'a str,
    members: Vec<PackedMember<'a>>,
}

struct PackedMember<'a> {
    /// Empty if the names of the fields were not stored.
    field: &'a str,
    header: &'a [u8],
    data: &'a [u8],
}

impl PackedSample<'_> {
    /// The names of its fields; empty texts if they were not stored.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.field)
    }

    /// Writes its members with the headers that they were read with.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write<W: Write>(&self, out: &mut ArchiveWriter<W>) -> io::Result<()> {
        for member in &self.members {
            out.raw_header(member.header)?;
            out.data(member.data)?;
        }
        Ok(())
    }
}

/// Groups samples that are sorted by key: consecutive samples with the same key
/// become one.
#[derive(Default)]
pub struct KeyGroups {
    key: String,
    fields: FieldSet,
}

impl KeyGroups {
    /// Returns true if the sample with this key and these fields begins a new
    /// group, false if it continues the previous one. A field that appears
    /// twice in a group is an error; `source` is what messages call the stream.
    pub fn is_new<'a>(&mut self, key: &str, fields: impl Iterator<Item = &'a str>, source: &str) -> Result<bool> {
        let is_new = key != self.key;
        if is_new {
            key.clone_into(&mut self.key);
            self.fields.clear();
        }
        for field in fields {
            if let Err(refusal) = self.fields.add(field) {
                bail!("{source}: sample {key}: field {field} {refusal} ({})", refusal.code());
            }
        }
        Ok(is_new)
    }
}

/// Whether `text` is the end of the key, and therefore need not be stored.
fn is_in(text: &[u8], key: &[u8]) -> bool {
    !text.is_empty() && key.ends_with(text)
}

/// Appends a length and the text, unless the key ends with it.
fn put_text(out: &mut Vec<u8>, text: &[u8], key: &[u8]) {
    let in_key = is_in(text, key);
    varint::put(out, (text.len() as u64) << 1 | u64::from(in_key));
    if !in_key {
        out.extend_from_slice(text);
    }
}

/// The inverse of [`put_text`].
fn take_text<'a>(body: &mut &'a [u8], key: &'a [u8]) -> Option<&'a [u8]> {
    let size = varint::take(body)?;
    let bytes = (size >> 1) as usize;
    if size & 1 == 1 { key.get(key.len().checked_sub(bytes)?..) } else { body.split_off(..bytes) }
}

/// Appends the header that the member has or gets, without the zeros at its
/// end.
fn put_header(out: &mut Vec<u8>, sample: &Sample, member: &Member) -> io::Result<()> {
    let mut made = Vec::new();
    let header = match &member.header {
        Some(header) => header,
        None => {
            let mut writer = ArchiveWriter::new(&mut made);
            writer.new_header(&format!("{}.{}", sample.key, member.field), member.data.len() as u64, sample.mtime)?;
            writer.flush()?;
            &made
        }
    };
    let used = header.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    put_text(out, &header[..used], b"");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample as it stands in an archive, and the record that it becomes.
    fn round_trip(sample: &Sample, key: &[u8]) -> (Vec<u8>, Vec<u8>, usize) {
        let archived = |write: &dyn Fn(&mut ArchiveWriter<Vec<u8>>)| {
            let mut writer = ArchiveWriter::new(Vec::new());
            write(&mut writer);
            writer.finish().unwrap()
        };
        let mut packer = Packer::new(true);
        let body = packer.pack(sample, key).unwrap().concat();
        let packed = packer.unpack(&SortRecord { key, body: &body }).unwrap();
        assert_eq!(packed.key, sample.key);
        let before = archived(&|writer| sample.write(writer).unwrap());
        (before, archived(&|writer| packed.write(writer).unwrap()), key.len() + body.len())
    }

    #[test]
    fn samples_come_back_and_take_no_more_room_than_in_an_archive() {
        for (path, size) in [("a", 0), ("train/0001", 512), (&"long/".repeat(50), 1024), ("exact", 700)] {
            let key = format!("{path}k");
            let text = "t".repeat(size);
            let members = vec![Member::new("txt", text.clone().into()), Member::new("cls", b"7".to_vec())];
            let sample = Sample { key: key.clone(), mtime: 5, source: "s".into(), members };
            for sort_key in [key.as_bytes(), text.as_bytes(), b"12345678"] {
                let (before, after, spilled) = round_trip(&sample, sort_key);
                assert!(before == after, "{key} {size}");
                assert!(spilled + 12 <= before.len() - 1024, "{key}: {spilled} bytes for {}", before.len());
            }
        }
    }

    #[test]
    fn a_damaged_record_is_an_error() {
        let packer = Packer::new(false);
        for body in [&b""[..], b"\x04", b"\x02a\x05", b"\x02a\x01\x02x\xff\xff\x01", &[0xff; 20]] {
            assert!(packer.unpack(&SortRecord { key: b"k", body }).is_err(), "{body:?}");
        }
    }
}
