//! Header blocks with sums that hold: what stands behind the checksum that stops most mutations.
//!
//! The input is a list of blocks: a type, a size, a name and data, each cut off the front.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use tarpipe::archive::{ArchiveReader, EntryKind, padding};
use tarpipe::sample::member_name;

const TYPES: &[u8] = b"xgLK0SX5172\0";

/// Cuts up to `n` bytes off the front.
fn take<'a>(rest: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(n.min(rest.len()));
    *rest = left;
    taken
}

fn archive(mut rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [kind, flags, length, more @ ..] = rest {
        rest = more;
        let mut header = if flags & 1 == 0 { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        let name = take(&mut rest, usize::from(flags >> 4));
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(tar::EntryType::new(TYPES[usize::from(*kind) % TYPES.len()]));
        let data = take(&mut rest, usize::from(*length));
        header.set_size(data.len() as u64);
        if flags & 2 != 0 {
            header.as_old_mut().size.copy_from_slice(&[take(&mut rest, 12), &[b'7'; 12]].concat()[..12]);
        }
        if flags & 4 != 0 {
            header.as_mut_bytes()[300..].copy_from_slice(&[take(&mut rest, 212), &[0; 212]].concat()[..212]);
        }
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding(data.len() as u64), 0);
    }
    bytes.extend([0; 1024]);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let archive = archive(bytes);
    let mut reader = ArchiveReader::new(Box::new(Cursor::new(archive.clone())), false);
    while let Ok(Some(entry)) = reader.next_entry() {
        assert!(entry.offset <= archive.len() as u64 && entry.header.len() <= archive.len());
        if let Ok((key, field)) = member_name::split(&entry.path) {
            assert!(!key.is_empty() && !field.is_empty() && !field.contains('/'));
            assert!(!key.starts_with('/') && !key.split('/').any(|part| part == ".."));
        }
        if entry.kind == EntryKind::File && entry.size % 2 == 0 && reader.read_data().is_err() {
            break;
        }
    }
});
