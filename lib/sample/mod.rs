//! Samples: how members are grouped into them, read, written and selected.
//!
//! - [`member_name`] splits the name of a member into key and field.
//! - [`fields`] finds duplicate fields, and counts fields.
//! - [`field_path`] finds values in fields: `json.width`; [`join_on`] matches
//!   them with columns.
//! - [`stream`] reads samples from an archive without holding more than one of
//!   them.
//! - [`Sample`] is a sample in memory, for tools that look into it.
//! - [`shard`] writes samples into an archive, [`index`] describes such an
//!   archive.
//! - [`select`] evaluates `--select`, [`failed`] marks failures that stay in
//!   the stream.
//!
//! Two rules hold for every sample, so that loaders read back what tools have
//! written: no field appears twice in it (ignoring case), and the next sample
//! has a different key.

pub mod failed;
pub mod field_path;
pub mod fields;
pub mod index;
pub mod join_on;
pub mod member_name;
pub mod select;
pub mod shard;
pub mod stream;

use std::io::{self, Write};
use std::sync::Arc;

use crate::archive::ArchiveWriter;

/// One file of a sample.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its field: what follows the key and the dot in its name.
    pub field: String,
    /// Its content.
    pub data: Vec<u8>,
    /// The header blocks that it was read with, which are copied to the output
    /// as they are. None for a new or changed member, which gets a new header
    /// when it is written.
    pub header: Option<Vec<u8>>,
}

impl Member {
    /// A new member, without a header of its own.
    pub fn new(field: impl Into<String>, data: Vec<u8>) -> Self {
        Member { field: field.into(), data, header: None }
    }
}

/// Adjacent members that share a key, in their order in the archive.
///
/// ```
/// use tarpipe::sample::{Member, Sample};
///
/// let mut sample = Sample { key: "cat".into(), mtime: 0, source: "stdin".into(), members: vec![Member::new("txt", b"meow".to_vec())] };
/// sample.set("json", b"{}".to_vec());
/// assert_eq!(sample.bytes(), 6);
/// assert!(sample.get("jpg").is_none());
/// ```
#[derive(Clone, Debug)]
pub struct Sample {
    /// The common part of the members' names.
    pub key: String,
    /// Modification time of its first member; new members get it too.
    pub mtime: u64,
    /// What messages call the stream that it came from.
    pub source: Arc<str>,
    /// Its files. No field appears twice, whatever its case.
    pub members: Vec<Member>,
}

impl Sample {
    /// The member with this field; the case matters.
    pub fn get(&self, field: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.field == field)
    }

    /// Sets the content of `field`: replaces the member that has it, in its
    /// position, or appends one. The member loses its original header.
    pub fn set(&mut self, field: &str, data: Vec<u8>) {
        let member = Member::new(field, data);
        match self.members.iter_mut().find(|member| member.field == field) {
            Some(old) => *old = member,
            None => self.members.push(member),
        }
    }

    /// Changes the key. All members then get new headers, unless the key is the
    /// same. The key is not checked; see [`member_name::check_key`].
    pub fn rekey(&mut self, key: String) {
        if key != self.key {
            self.key = key;
            self.members.iter_mut().for_each(|member| member.header = None);
        }
    }

    /// Bytes of data in all members, without headers.
    pub fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.data.len() as u64).sum()
    }

    /// Writes all members in order. Headers that were read are written
    /// unchanged, so that an untouched sample is copied byte for byte.
    ///
    /// # Errors
    ///
    /// Those of the output.
    pub fn write<W: Write>(&self, out: &mut ArchiveWriter<W>) -> io::Result<()> {
        for member in &self.members {
            match &member.header {
                Some(blocks) => out.raw_header(blocks)?,
                None => {
                    let path = format!("{}.{}", self.key, member.field);
                    out.new_header(&path, member.data.len() as u64, self.mtime)?;
                }
            }
            out.data(&member.data)?;
        }
        Ok(())
    }
}
