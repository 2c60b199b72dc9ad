//! Packs the files that a command left in its directory as samples.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::FileType;
use tarpipe::run::failure::Failure;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};

use crate::tarproc::directory::{self, DirectoryEntry};
use crate::tarproc::read_file::{ReadAllowance, read, read_key};

/// The rules for packing a directory.
#[derive(Clone, Debug)]
pub struct PackRules {
    /// The base name of a sample's files.
    pub base: String,
    /// `BASE-N.*` files are samples of their own.
    pub multi: bool,
    /// Sub-directories are samples of their own.
    pub subdirs: bool,
    /// Maximum bytes of the result.
    pub max_sample: u64,
}

/// The samples in a directory.
#[derive(Default)]
pub struct PackedSamples {
    /// The sample itself, then the additional ones in order.
    pub samples: Vec<Sample>,
    /// Number of files that belong to no sample.
    pub ignored: u64,
}

/// The names, headers and checksums of an input sample: enough to recognize members that come out unchanged.
pub struct Origin {
    key: String,
    mtime: u64,
    source: Arc<str>,
    members: Vec<(String, Option<Vec<u8>>, usize, u32)>,
}

impl Origin {
    /// Describes a sample, whose data can then be dropped.
    pub fn of(sample: &Sample) -> Self {
        let known = |member: &Member| {
            (member.field.clone(), member.header.clone(), member.data.len(), crc32fast::hash(&member.data))
        };
        Origin {
            key: sample.key.clone(),
            mtime: sample.mtime,
            source: Arc::clone(&sample.source),
            members: sample.members.iter().map(known).collect(),
        }
    }

    /// A sample made from this one. Existing fields keep their order, new ones follow by name. Unchanged members keep
    /// their headers if the key is the same. Duplicate fields are a failure, whatever their case: loaders fold it.
    pub fn derive(&self, key: String, mut members: Vec<Member>) -> Result<Sample, Failure> {
        let places: BTreeMap<&str, usize> =
            self.members.iter().enumerate().map(|(at, known)| (known.0.as_str(), at)).collect();
        let role = |member: &Member| places.get(member.field.as_str()).copied();
        let order = |member: &Member| role(member).unwrap_or(usize::MAX);
        members.sort_by(|a, b| (order(a), &a.field).cmp(&(order(b), &b.field)));
        let mut folded: Vec<String> = members.iter().map(|member| member.field.to_ascii_lowercase()).collect();
        folded.sort_unstable();
        if let Some(twice) = folded.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::new("duplicate_field", format!("field {} appears twice", twice[0])));
        }
        if key == self.key {
            for member in &mut members {
                member.header = role(member).and_then(|at| self.header_for(at, member));
            }
        }
        Ok(Sample { key, mtime: self.mtime, source: Arc::clone(&self.source), members })
    }

    /// The header of the original member, if this one is the same.
    fn header_for(&self, at: usize, member: &Member) -> Option<Vec<u8>> {
        let (_, header, size, sum) = &self.members[at];
        let same = *size == member.data.len() && *sum == crc32fast::hash(&member.data);
        header.clone().filter(|_| same)
    }
}

impl PackRules {
    /// Reads the samples in `directory`. `buffers` is memory that may be used again.
    pub fn pack(
        &self,
        directory: BorrowedFd<'_>,
        entries: &[DirectoryEntry],
        origin: &Origin,
        buffers: Vec<Vec<u8>>,
    ) -> Result<PackedSamples, Failure> {
        let allowance = &mut ReadAllowance { left: self.max_sample, buffers };
        let mut groups = PackedGroups::default();
        let mut packed = PackedSamples::default();
        for entry in entries {
            let Some((part, rest)) = self.role(entry, &mut packed.ignored) else { continue };
            let group = groups.entry(part).or_default();
            match rest {
                FileRole::Key => group.key = Some(read_key(directory, entry)?),
                FileRole::Field(field) => group.members.push(Member::new(field, read(directory, entry, allowance)?)),
                FileRole::Directory => *group = self.sub_directory(directory, entry, allowance, &mut packed.ignored)?,
            }
        }
        for (part, PackedGroup { key, members }) in groups.into_iter().filter(|(_, group)| !group.members.is_empty()) {
            let usual = || if part.is_whole() { origin.key.clone() } else { format!("{}/{}", origin.key, part.name) };
            packed.samples.push(origin.derive(key.unwrap_or_else(usual), members)?);
        }
        Ok(packed)
    }

    /// The sample that an entry belongs to, and its role there.
    fn role(&self, entry: &DirectoryEntry, ignored: &mut u64) -> Option<(SamplePart, FileRole)> {
        let name = entry.name.to_bytes();
        let known = match name {
            b"__source__" => return None,
            b"__key__" => Some((SamplePart::whole(), FileRole::Key)),
            _ => match name.strip_prefix(self.base.as_bytes()) {
                Some(rest) if rest.starts_with(b".") => field(&rest[1..]).map(|role| (SamplePart::whole(), role)),
                Some(rest) if self.multi && rest.starts_with(b"-") => part(&rest[1..]),
                _ if self.subdirs && entry.kind == FileType::Directory => {
                    std::str::from_utf8(name).ok().map(|name| (SamplePart::new(name), FileRole::Directory))
                }
                _ => None,
            },
        };
        if known.is_none() {
            *ignored += 1;
        }
        known
    }

    fn sub_directory(
        &self,
        parent: BorrowedFd<'_>,
        entry: &DirectoryEntry,
        allowance: &mut ReadAllowance,
        ignored: &mut u64,
    ) -> Result<PackedGroup, Failure> {
        let handle =
            directory::open(parent, &entry.name).map_err(|err| Failure::system("open a sub-directory", err))?;
        let plain = PackRules { multi: false, subdirs: false, ..self.clone() };
        let mut group = PackedGroup::default();
        for entry in directory::list(handle.as_fd())? {
            match plain.role(&entry, ignored) {
                Some((_, FileRole::Key)) => group.key = Some(read_key(handle.as_fd(), &entry)?),
                Some((_, FileRole::Field(field))) => {
                    group.members.push(Member::new(field, read(handle.as_fd(), &entry, allowance)?));
                }
                _ => {}
            }
        }
        Ok(group)
    }
}

/// The files of one sample.
#[derive(Default)]
struct PackedGroup {
    key: Option<String>,
    members: Vec<Member>,
}

type PackedGroups = BTreeMap<SamplePart, PackedGroup>;

/// Identifies a sample in a directory. Numbers sort by value, names after them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SamplePart {
    number: Option<u64>,
    is_name: bool,
    name: String,
}

impl SamplePart {
    fn whole() -> Self {
        SamplePart { number: None, is_name: false, name: String::new() }
    }

    fn new(name: &str) -> Self {
        // A name sorts after every number.
        let number = name.parse().ok();
        SamplePart { number: number.or(Some(u64::MAX)), is_name: number.is_none(), name: name.to_owned() }
    }

    fn is_whole(&self) -> bool {
        self.name.is_empty()
    }
}

enum FileRole {
    Key,
    Field(String),
    Directory,
}

/// A field, if it is a valid one.
fn field(text: &[u8]) -> Option<FileRole> {
    let path = [b"x.", text].concat();
    member_name::split(&path).ok().map(|(_, field)| FileRole::Field(field.to_owned()))
}

/// `N.FIELD` and `N.__key__`.
fn part(text: &[u8]) -> Option<(SamplePart, FileRole)> {
    let dot = text.iter().position(|&b| b == b'.').filter(|&dot| dot > 0)?;
    let part = SamplePart::new(std::str::from_utf8(&text[..dot]).ok()?);
    match &text[dot + 1..] {
        b"__key__" => Some((part, FileRole::Key)),
        rest => field(rest).map(|role| (part, role)),
    }
}
