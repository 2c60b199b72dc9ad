//! What a command left in its directory, as samples.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::FileType;
use tarpipe::run::failure::Failure;
use tarpipe::sample::member_name;
use tarpipe::sample::{Member, Sample};

use crate::directory::{self, Entry};
use crate::file::{Room, read, read_key};

/// How directories become samples.
#[derive(Clone, Debug)]
pub struct Packing {
    /// What the names of a sample's files start with.
    pub base: String,
    /// `BASE-N.*` files are samples of their own.
    pub multi: bool,
    /// Sub-directories are samples of their own.
    pub subdirs: bool,
    /// Larger results fail.
    pub max_sample: u64,
}

/// What a directory held.
#[derive(Default)]
pub struct Packed {
    /// In order: the sample itself, then those of its parts.
    pub samples: Vec<Sample>,
    /// How many names there were that belong to no sample.
    pub ignored: u64,
}

/// What is known of the sample that went in: enough to tell which members come out untouched.
pub struct Origin {
    key: String,
    mtime: u64,
    source: Arc<str>,
    members: Vec<(String, Option<Vec<u8>>, usize, u32)>,
}

impl Origin {
    /// Remembers a sample, whose data may then go.
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

    /// A sample made from this one. Fields that it had keep their order, new ones follow by name;
    /// members that are as they were keep their header, if the key is the same. Fields that
    /// stand twice fail, and loaders fold their case.
    pub fn derive(&self, key: String, mut members: Vec<Member>) -> Result<Sample, Failure> {
        let places: BTreeMap<&str, usize> =
            self.members.iter().enumerate().map(|(at, known)| (known.0.as_str(), at)).collect();
        let place = |member: &Member| places.get(member.field.as_str()).copied();
        let order = |member: &Member| place(member).unwrap_or(usize::MAX);
        members.sort_by(|a, b| (order(a), &a.field).cmp(&(order(b), &b.field)));
        let mut folded: Vec<String> = members.iter().map(|member| member.field.to_ascii_lowercase()).collect();
        folded.sort_unstable();
        if let Some(twice) = folded.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::new("duplicate_field", format!("field {} stands twice", twice[0])));
        }
        if key == self.key {
            for member in &mut members {
                member.header = place(member).and_then(|at| self.header_for(at, member));
            }
        }
        Ok(Sample { key, mtime: self.mtime, source: Arc::clone(&self.source), members })
    }

    /// The header of the member that stood there, if this one is the same.
    fn header_for(&self, at: usize, member: &Member) -> Option<Vec<u8>> {
        let (_, header, size, sum) = &self.members[at];
        let same = *size == member.data.len() && *sum == crc32fast::hash(&member.data);
        header.clone().filter(|_| same)
    }
}

impl Packing {
    /// Reads what is left of a sample that was unpacked into `directory`.
    /// `spare` is memory that may be used again.
    pub fn pack(
        &self,
        directory: BorrowedFd<'_>,
        entries: &[Entry],
        origin: &Origin,
        spare: Vec<Vec<u8>>,
    ) -> Result<Packed, Failure> {
        let room = &mut Room { left: self.max_sample, spare };
        let mut groups = Groups::default();
        let mut packed = Packed::default();
        for entry in entries {
            let Some((part, rest)) = self.place(entry, &mut packed.ignored) else { continue };
            let group = groups.entry(part).or_default();
            match rest {
                Place::Key => group.key = Some(read_key(directory, entry)?),
                Place::Field(field) => group.members.push(Member::new(field, read(directory, entry, room)?)),
                Place::Directory => *group = self.sub_directory(directory, entry, room, &mut packed.ignored)?,
            }
        }
        for (part, Group { key, members }) in groups.into_iter().filter(|(_, group)| !group.members.is_empty()) {
            let usual = || if part.is_whole() { origin.key.clone() } else { format!("{}/{}", origin.key, part.name) };
            packed.samples.push(origin.derive(key.unwrap_or_else(usual), members)?);
        }
        Ok(packed)
    }

    /// Which sample an entry belongs to, and as what.
    fn place(&self, entry: &Entry, ignored: &mut u64) -> Option<(Part, Place)> {
        let name = entry.name.to_bytes();
        let known = match name {
            b"__source__" => return None,
            b"__key__" => Some((Part::whole(), Place::Key)),
            _ => match name.strip_prefix(self.base.as_bytes()) {
                Some(rest) if rest.starts_with(b".") => field(&rest[1..]).map(|place| (Part::whole(), place)),
                Some(rest) if self.multi && rest.starts_with(b"-") => part(&rest[1..]),
                _ if self.subdirs && entry.kind == FileType::Directory => {
                    std::str::from_utf8(name).ok().map(|name| (Part::new(name), Place::Directory))
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
        entry: &Entry,
        room: &mut Room,
        ignored: &mut u64,
    ) -> Result<Group, Failure> {
        let handle =
            directory::open(parent, &entry.name).map_err(|err| Failure::system("open a sub-directory", err))?;
        let plain = Packing { multi: false, subdirs: false, ..self.clone() };
        let mut group = Group::default();
        for entry in directory::list(handle.as_fd())? {
            match plain.place(&entry, ignored) {
                Some((_, Place::Key)) => group.key = Some(read_key(handle.as_fd(), &entry)?),
                Some((_, Place::Field(field))) => {
                    group.members.push(Member::new(field, read(handle.as_fd(), &entry, room)?));
                }
                _ => {}
            }
        }
        Ok(group)
    }
}

/// The files of one sample to be.
#[derive(Default)]
struct Group {
    key: Option<String>,
    members: Vec<Member>,
}

type Groups = BTreeMap<Part, Group>;

/// Which of the samples in a directory: numbers come by value, names after them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    number: Option<u64>,
    is_name: bool,
    name: String,
}

impl Part {
    fn whole() -> Self {
        Part { number: None, is_name: false, name: String::new() }
    }

    fn new(name: &str) -> Self {
        // A name sorts behind every number.
        let number = name.parse().ok();
        Part { number: number.or(Some(u64::MAX)), is_name: number.is_none(), name: name.to_owned() }
    }

    fn is_whole(&self) -> bool {
        self.name.is_empty()
    }
}

enum Place {
    Key,
    Field(String),
    Directory,
}

/// A field, if it can be one in an archive.
fn field(text: &[u8]) -> Option<Place> {
    let path = [b"x.", text].concat();
    member_name::split(&path).ok().map(|(_, field)| Place::Field(field.to_owned()))
}

/// `N.FIELD` and `N.__key__`.
fn part(text: &[u8]) -> Option<(Part, Place)> {
    let dot = text.iter().position(|&b| b == b'.').filter(|&dot| dot > 0)?;
    let part = Part::new(std::str::from_utf8(&text[..dot]).ok()?);
    match &text[dot + 1..] {
        b"__key__" => Some((part, Place::Key)),
        rest => field(rest).map(|place| (part, place)),
    }
}
