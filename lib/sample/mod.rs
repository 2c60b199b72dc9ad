//! A sample in memory: what the tools that look into samples work on.

pub mod failed;
pub mod fields;
pub mod index;
pub mod member_name;
pub mod select;
pub mod shard;
pub mod stream;

use std::io::{self, Write};
use std::sync::Arc;

use crate::archive::Writer;

/// One file of a sample.
#[derive(Clone, Debug)]
pub struct Member {
    /// What follows the key and the dot in its name.
    pub field: String,
    /// Its bytes.
    pub data: Vec<u8>,
    /// The header blocks it was read with; None for a new or changed member, which gets
    /// a header of ours when it is written.
    pub header: Option<Vec<u8>>,
}

impl Member {
    /// A member that no archive held before.
    pub fn new(field: impl Into<String>, data: Vec<u8>) -> Self {
        Member { field: field.into(), data, header: None }
    }
}

/// Adjacent members with one key, in their order.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The common part of the members' names.
    pub key: String,
    /// Modification time of its first member; new members get it too.
    pub mtime: u64,
    /// What messages call the stream it came from.
    pub source: Arc<str>,
    /// Its files. No field stands twice.
    pub members: Vec<Member>,
}

impl Sample {
    /// The member with this field.
    pub fn get(&self, field: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.field == field)
    }

    /// Puts `data` into `field`: in the place of the member that has it, or at the end.
    pub fn set(&mut self, field: &str, data: Vec<u8>) {
        let member = Member::new(field, data);
        match self.members.iter_mut().find(|member| member.field == field) {
            Some(old) => *old = member,
            None => self.members.push(member),
        }
    }

    /// Gives the sample another key. Its members are new then.
    pub fn rekey(&mut self, key: String) {
        if key != self.key {
            self.key = key;
            self.members.iter_mut().for_each(|member| member.header = None);
        }
    }

    /// Bytes of data in all members.
    pub fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.data.len() as u64).sum()
    }

    /// Writes all members in order.
    pub fn write<W: Write>(&self, out: &mut Writer<W>) -> io::Result<()> {
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
