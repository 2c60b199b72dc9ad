//! Any bytes as an archive. Short reads change nothing, and what was read can be written and read again.

#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;
use tarpipe::archive::{ArchiveReader, ArchiveWriter, EntryKind, Fault};

/// A member: path, size as claimed, time, data.
type Member = (Vec<u8>, EntryKind, u64, u64, Vec<u8>);

/// Hands out a few bytes at a time.
struct Short(Cursor<Vec<u8>>, usize);

impl Read for Short {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let n = buf.len().min(self.1);
        self.0.read(&mut buf[..n])
    }
}

fn all(input: Box<dyn Read + Send>, ignore_eof: bool) -> (Vec<Member>, Result<(), Fault>) {
    let mut reader = ArchiveReader::new(input, ignore_eof);
    let mut members = Vec::new();
    let end = loop {
        match reader.next_entry() {
            Err(fault) => break Err(fault),
            Ok(None) => break Ok(()),
            Ok(Some(entry)) => {
                let is_file = entry.kind == EntryKind::File;
                let data = match if is_file { reader.read_data() } else { Ok(Vec::new()) } {
                    Ok(data) => data,
                    Err(fault) => break Err(fault),
                };
                if is_file {
                    assert_eq!(data.len() as u64, entry.size);
                }
                members.push((entry.path, entry.kind, entry.size, entry.mtime, data));
            }
        }
    };
    (members, end)
}

/// The same archive, every file written anew by its headers as read.
fn copied(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = ArchiveReader::new(Box::new(Cursor::new(bytes.to_vec())), false);
    let mut writer = ArchiveWriter::new(Vec::new());
    while let Some(entry) = reader.next_entry().ok()? {
        if entry.kind == EntryKind::File && !entry.header.is_empty() {
            writer.raw_header(&entry.header).ok()?;
            reader.copy_data(&mut writer).ok()?;
        }
    }
    writer.finish().ok()
}

fuzz_target!(|bytes: &[u8]| {
    for ignore_eof in [false, true] {
        let (whole, end) = all(Box::new(Cursor::new(bytes.to_vec())), ignore_eof);
        let (short, short_end) = all(Box::new(Short(Cursor::new(bytes.to_vec()), 0)), ignore_eof);
        assert!(whole == short, "short reads change what is read");
        assert_eq!(end.map_err(|fault| fault.to_string()), short_end.map_err(|fault| fault.to_string()));
    }
    if let Some(copy) = copied(bytes) {
        let (again, end) = all(Box::new(Cursor::new(copy.clone())), false);
        end.expect("a copy that cannot be read");
        assert_eq!(copied(&copy).map(|twice| twice == copy), Some(true), "a copy of a copy differs");
        let (first, _) = all(Box::new(Cursor::new(bytes.to_vec())), false);
        let files = first.iter().filter(|member| member.1 == EntryKind::File);
        assert!(again.len() <= files.count());
    }
});
