//! One shard as one loader reads it: groups the members by the loader's own rules and compares the result with the
//! samples of the shard.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use tarpipe::archive::{ArchiveEntry, EntryKind, Fault};
use tarpipe::compression::CompressionFormat;

use crate::tarcheck::loaders::arrays::ArrayFields;
use crate::tarcheck::loaders::json_types::TypeSeen;
use crate::tarcheck::loaders::schema::FieldSets;
use crate::tarcheck::loaders::{Loader, content, names};
use crate::tarcheck::verdict::Finding;

/// This many names of a shard are remembered, in some 20 MB.
const MOST_NAMES: usize = 1 << 20;

const SALVAGE: &str = "tarcat --max-bad 1 {} -o fixed.tar";
const REWRITE: &str = "tarcat {} -o fixed.tar";
const REKEY: &str = "tarcat --rekey '{index:09}' {} -o fixed.tar";
const DROP_SAMPLE: &str = "tarcat --select 'key != \"KEY\"' {} -o fixed.tar";

/// A member as a loader meets it.
pub struct LoaderMember<'a> {
    pub entry: &'a ArchiveEntry,
    /// Its key and field, if it belongs to a sample.
    pub part: Option<(&'a str, &'a str)>,
    /// Its data, if a loader decodes it.
    pub data: Option<&'a [u8]>,
}

/// What a loader makes of a shard.
#[derive(Clone, Debug)]
pub struct LoaderResult {
    pub loader: Loader,
    /// Number of places where it fails.
    pub fails: u64,
    /// Samples that it does not return whole.
    pub lost: u64,
    /// Whether it loses samples that cannot be counted, because the archive is damaged.
    pub lost_more: bool,
}

/// The view of a loader while the shard is read.
pub struct LoaderView {
    pub result: LoaderResult,
    /// Every fault is counted, the first ones are described.
    pub faults: u64,
    pub findings: Vec<Finding>,
    show: usize,
    stopped: bool,
    /// The group of members that the loader is collecting: its number, key and fields.
    group: u64,
    key: String,
    offset: u64,
    fields: HashSet<u64>,
    salt: RandomState,
    /// What this loader alone needs: the fields of Hugging Face's samples, the arrays of Ray's, and the names of WIDS'
    /// members, which it looks up by name.
    pub field_sets: Option<FieldSets>,
    arrays: Option<ArrayFields>,
    names: HashSet<u64>,
    /// Keys that only the loader sees, of members that belong to no sample.
    other_keys: HashSet<u64>,
    /// The current sample: the group of its first member, and why it is lost.
    sample_group: Option<u64>,
    lost: Option<(u64, String)>,
    last_group: Option<u64>,
}

impl LoaderView {
    pub fn new(loader: Loader, show: usize) -> Self {
        LoaderView {
            result: LoaderResult { loader, fails: 0, lost: 0, lost_more: false },
            faults: 0,
            findings: Vec::new(),
            show,
            stopped: false,
            group: 0,
            key: String::new(),
            offset: 0,
            fields: HashSet::new(),
            salt: RandomState::new(),
            field_sets: (loader == Loader::Hf).then(FieldSets::default),
            arrays: (loader == Loader::Ray).then(ArrayFields::default),
            names: HashSet::new(),
            other_keys: HashSet::new(),
            sample_group: None,
            lost: None,
            last_group: None,
        }
    }

    /// Notes how the shard is stored.
    pub fn begin(&mut self, shard: &str, compression: Option<CompressionFormat>) {
        let loader = self.result.loader;
        if let Some(format) = compression.filter(|&format| !loader.reads(format)) {
            self.fail(0, None, format!("cannot read {format}"), REWRITE);
        } else if shard != "-" && !shard.starts_with("pipe:") && !loader.finds(shard) {
            self.fail(0, None, "ignores files whose names do not end in .tar".into(), REWRITE);
        }
    }

    /// Takes the next member of the archive.
    pub fn member(&mut self, member: &LoaderMember<'_>) {
        let loader = self.result.loader;
        let after_end = member.entry.archive > 0;
        if after_end && member.part.is_some() && !self.stopped {
            self.stopped = true;
            let what = "stops at the first end-of-archive marker: samples from here on are lost".into();
            self.find("loader_loses", member.entry.offset, None, what, Some(REWRITE));
        }
        let path = String::from_utf8_lossy(&member.entry.path);
        let name = match loader {
            Loader::Wids => names::in_header(&member.entry.header).unwrap_or_else(|| path.clone().into_owned()),
            _ => path.clone().into_owned(),
        };
        let place = match after_end || !loader.sees(member.entry, &name) {
            true => None,
            false => loader.split(&name),
        };
        match place {
            Some((key, field)) => self.collect(member, &name, key, field),
            None if member.part.is_some() => self.lose(member.entry.offset, format!("skips member {path}")),
            None if member.entry.kind == EntryKind::Link && names::by_webdataset(&path).is_some() => {
                self.result.lost_more = true;
                self.find("loader_loses", member.entry.offset, None, format!("skips the link {path}"), None);
            }
            None => {}
        }
    }

    /// Adds a member to the loader's current group.
    fn collect(&mut self, member: &LoaderMember<'_>, name: &str, key: &str, field: &str) {
        let (loader, offset) = (self.result.loader, member.entry.offset);
        if self.group == 0 || self.key != key {
            self.begin_group(member, key);
        }
        self.field_sets.iter_mut().for_each(|sets| sets.add(field));
        self.arrays.iter_mut().for_each(|arrays| arrays.add(field));
        if let Some((sets, data)) = self.field_sets.as_mut().zip(member.data)
            && let Some(value) = content::json(loader, field, data)
        {
            sets.add_json(field, &value, &TypeSeen { offset, key: key.to_owned() });
        }
        let folded = if loader.folds_case() { field.to_lowercase() } else { field.to_owned() };
        if loader == Loader::Wids && is_repeated(&mut self.names, self.salt.hash_one(name)) {
            self.result.lost_more = true;
            let what = format!("finds another member under the repeated name {name}");
            self.find("loader_loses", offset, Some(key), what, Some(REKEY));
        } else if !self.fields.insert(self.salt.hash_one(&folded)) {
            let what = format!("field {field} appears twice");
            match loader.refuses_repeated_fields() {
                true => self.fail(offset, Some(key), what, DROP_SAMPLE),
                false => self.lose(offset, what),
            }
        }
        let refusal = match member.data {
            Some(data) => content::refusal(loader, field, data),
            None => is_apple_double(member, name).then(|| content::refusal(loader, field, b"")).flatten(),
        };
        if let Some(why) = refusal {
            self.fail(offset, Some(key), format!("fails on field {field}, which {why}"), DROP_SAMPLE);
        }
        self.compare(member, name, key, field);
    }

    /// Compares the loader's place of a member with its place in our sample.
    fn compare(&mut self, member: &LoaderMember<'_>, name: &str, key: &str, field: &str) {
        let Some((our_key, our_field)) = member.part else { return };
        let offset = member.entry.offset;
        if (key, field) != (our_key, our_field) {
            self.lose(offset, format!("reads the name of member {our_key}.{our_field} as {name}"));
        } else if self.sample_group.is_none() && self.last_group == Some(self.group) {
            self.lose(offset, "merges it with the sample before".into());
        } else if self.sample_group.is_some_and(|group| group != self.group) {
            let what = "a member of another key splits the sample".to_owned();
            match self.result.loader.refuses_repeated_key(false) {
                true => self.fail(offset, Some(key), what, REWRITE),
                false => self.lose(offset, what),
            }
        }
        self.sample_group.get_or_insert(self.group);
    }

    /// The loader begins a new sample at this member.
    fn begin_group(&mut self, member: &LoaderMember<'_>, key: &str) {
        self.end_group();
        self.group += 1;
        self.key = key.to_owned();
        self.offset = member.entry.offset;
        self.fields.clear();
        let comes_again = member.part.is_none() && is_repeated(&mut self.other_keys, self.salt.hash_one(key));
        if comes_again && self.result.loader.refuses_repeated_key(false) {
            let what = format!("takes dot-files for samples with the repeated key {key}");
            self.fail(member.entry.offset, Some(key), what, REWRITE);
        }
    }

    fn end_group(&mut self) {
        if self.group > 0 {
            self.field_sets.iter_mut().for_each(|sets| sets.end_sample(&self.key, self.offset));
            if let Some(field) = self.arrays.as_mut().and_then(ArrayFields::end_sample) {
                let (offset, key) = (self.offset, self.key.clone());
                let what = format!("fails because this sample has no field {field}, unlike the first one");
                self.fail(offset, Some(&key), what, DROP_SAMPLE);
            }
        }
    }

    /// Ends the current sample of the shard.
    pub fn end_sample(&mut self, key: &str) {
        self.last_group = self.sample_group.take().or(self.last_group);
        if let Some((offset, why)) = self.lost.take() {
            self.result.lost += 1;
            if !self.stopped {
                self.find("loader_loses", offset, Some(key), why, Some(REWRITE));
            }
        }
    }

    /// The archive ends with an error: a fault in it, or one of the input.
    pub fn broken(&mut self, offset: u64, fault: Option<&Fault>) {
        let loader = self.result.loader;
        let spared = self.stopped || fault.is_some_and(Fault::spares_members);
        let fails = match fault {
            Some(fault) if fault.cuts_member() => loader != Loader::Wids,
            Some(fault) => loader == Loader::Wids && fault.code == "cut",
            None => true,
        };
        if offset == 0 {
            self.fail(0, None, "cannot read the archive".into(), "");
        } else if !spared && fails {
            self.fail(offset, None, "fails at the end of the input".into(), SALVAGE);
        } else if !spared {
            self.result.lost_more = true;
            let what = "returns nothing, or damaged data, from here on".into();
            self.find("loader_loses", offset, None, what, Some(SALVAGE));
        }
    }

    /// Ends the shard.
    pub fn finish(&mut self, is_first: bool) {
        self.end_group();
        if self.group == 0 && self.result.fails == 0 && self.result.loader.refuses_empty_shards(is_first) {
            self.fail(0, None, "fails on a shard without samples; remove it".into(), "");
        }
    }

    fn lose(&mut self, offset: u64, why: String) {
        self.lost.get_or_insert((offset, why));
    }

    /// Notes that a sample consists of several files that the author meant to be samples.
    pub fn merged(&mut self, offset: u64, key: &str, why: &str) {
        self.result.lost_more = true;
        self.find("loader_loses", offset, Some(key), why.to_owned(), None);
    }

    /// Records a failure of the loader.
    pub fn fail(&mut self, offset: u64, sample: Option<&str>, what: String, repair: &'static str) {
        self.result.fails += 1;
        self.find("loader_fails", offset, sample, what, (!repair.is_empty()).then_some(repair));
    }

    fn find(&mut self, code: &'static str, offset: u64, sample: Option<&str>, what: String, repair: Option<&str>) {
        self.faults += 1;
        if self.findings.len() < self.show {
            let what = format!("{}: {what}", self.result.loader.name());
            let repair = repair.and_then(|command| with_key(command, sample.unwrap_or_default()));
            self.findings.push(Finding { code, offset, sample: sample.map(str::to_owned), what, repair });
        }
    }
}

/// Whether a hash is in the set already; if not, it is added. Past the limit, nothing counts as repeated.
fn is_repeated(seen: &mut HashSet<u64>, hash: u64) -> bool {
    seen.contains(&hash) || (seen.len() < MOST_NAMES && !seen.insert(hash))
}

/// Whether a member is one of the files that macOS adds to archives. They have the name of another file, not its content.
fn is_apple_double(member: &LoaderMember<'_>, name: &str) -> bool {
    member.part.is_none() && name.rsplit('/').next().is_some_and(|base| base.starts_with("._"))
}

/// The command with the key of a sample, unless the key could mean something else to the shell or in an expression.
fn with_key(command: &str, key: &str) -> Option<String> {
    let fits = !command.contains("KEY") || is_plain(key);
    fits.then(|| command.replace("KEY", key))
}

/// Whether a name from a shard can be part of a suggested command as it is.
pub fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_alphanumeric() || "-_./ ".contains(c))
}
