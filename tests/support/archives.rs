//! Makes and reads archives with another implementation of tar.

use std::io::{Cursor, Read};

/// An archive under construction.
#[derive(Clone, Default)]
pub struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    pub fn new() -> Self {
        Archive::default()
    }

    /// `count` samples with three fields each: a binary one, a number and some JSON.
    pub fn of_samples(count: usize) -> Self {
        (0..count).fold(Archive::new(), |archive, i| {
            archive
                .file(&format!("s{i:04}.jpg"), &noise(i as u64, 1000 + i * 37 % 700))
                .file(&format!("s{i:04}.cls"), format!("{}", i % 10).as_bytes())
                .file(&format!("s{i:04}.json"), format!("{{\"width\": {}}}", i * 100).as_bytes())
        })
    }

    /// A regular file.
    pub fn file(self, path: &str, data: &[u8]) -> Self {
        self.entry(path.as_bytes(), tar::EntryType::Regular, data)
    }

    /// A member of any type, with a name of up to 100 bytes.
    pub fn entry(mut self, path: &[u8], kind: tar::EntryType, data: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.set_entry_type(kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o640);
        header.set_mtime(1_700_000_000);
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self.raw(data)
    }

    /// Any bytes, padded to a block.
    pub fn raw(mut self, data: &[u8]) -> Self {
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    /// The archive without its end-of-archive blocks.
    pub fn cut(self) -> Vec<u8> {
        self.bytes
    }

    /// The complete archive.
    pub fn whole(mut self) -> Vec<u8> {
        self.bytes.extend([0; 1024]);
        self.bytes
    }
}

/// Incompressible bytes, the same for the same seed.
pub fn noise(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(n).collect()
}

/// Names and data of all members of a complete archive.
#[track_caller]
pub fn members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    assert!(bytes.len() >= 1024 && bytes.ends_with(&[0; 1024]), "no end-of-archive in {} bytes", bytes.len());
    try_members(bytes).unwrap()
}

/// Names of all members of a complete archive.
#[track_caller]
pub fn names(bytes: &[u8]) -> Vec<String> {
    members(bytes).into_iter().map(|member| member.0).collect()
}

pub fn try_members(bytes: &[u8]) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut archive = tar::Archive::new(Cursor::new(bytes));
    let mut members = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mut data = Vec::new();
        entry.read_to_end(&mut data)?;
        members.push((name, data));
    }
    Ok(members)
}
