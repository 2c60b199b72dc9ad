//! Samples off one archive: members grouped by key, in order, without reading ahead of
//! what is asked for.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Result, anyhow};

use crate::archive::{Entry, Fault, Kind, Reader, Writer};
use crate::location;
use crate::messages;
use crate::sample::fields::Fields;
use crate::sample::member_name;
use crate::sample::{Member, Sample};
use crate::source;
use crate::tally::Tally;

/// So many bytes of headers are not counted against the limit of a sample.
const HEADERS: u64 = 1 << 20;

/// The head of a sample: what is known before its data is read.
#[derive(Clone, Debug)]
pub struct Head {
    /// The key that its members share.
    pub key: String,
    /// Where its first member's header stands in the stream.
    pub offset: u64,
    /// Modification time of its first member.
    pub mtime: u64,
}

/// The samples of one archive. After [`Stream::next`] the sample is read by one of
/// [`Stream::load`], [`Stream::copy`], [`Stream::look`], [`Stream::visit`] or [`Stream::pass`]; if by none, it is skipped.
pub struct Stream {
    name: Arc<str>,
    reader: Reader,
    /// The member whose data stands next in the reader: the first of a sample.
    pending: Option<(Entry, String, String)>,
    /// Those seen in the current sample.
    fields: Fields,
    key: String,
    tally: Tally,
    observer: Option<Observer>,
}

/// Is told of every member that is left out.
pub type Observer = Box<dyn FnMut(&LeftOut<'_>) + Send>;

/// A member that is no part of any sample.
pub struct LeftOut<'a> {
    /// Its header.
    pub entry: &'a Entry,
    /// The reason code.
    pub code: &'static str,
    /// The reason in words.
    pub why: &'a str,
    /// Whether it was never meant to be part of a sample.
    pub harmless: bool,
}

/// A member on its way past.
pub struct Passing<'a> {
    /// What follows the key and the dot in its name.
    pub field: &'a str,
    /// Its header.
    pub entry: &'a Entry,
    /// Where its data stands: in the output for [`Stream::copy`], in the input for the others.
    pub data_offset: u64,
}

impl Stream {
    /// Opens a source, decompressed, as a stream of samples.
    pub fn open(name: &str, ignore_eof: bool) -> Result<Self> {
        let input = source::open(name).map_err(|err| err.context(location::display(name)))?;
        Ok(Stream::new(name, Reader::new(input, ignore_eof)))
    }

    /// The samples of an archive; `name` is what messages call it.
    pub fn new(name: &str, reader: Reader) -> Self {
        Stream {
            name: location::display(name).into(),
            reader,
            pending: None,
            fields: Fields::default(),
            key: String::new(),
            tally: Tally::default(),
            observer: None,
        }
    }

    /// Has `observer` told of what is left out, besides the count.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// What messages call this stream.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the current sample; empty when it has been read.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What was left out so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// The next sample's head; None after the last.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and lends the stream to the sample")]
    pub fn next(&mut self) -> Result<Option<Head>> {
        while self.next_member()?.is_some() {}
        if self.pending.is_none() {
            self.pending = self.next_fit()?;
        }
        self.fields.clear();
        Ok(self.pending.as_ref().map(|(entry, key, _)| {
            self.key.clone_from(key);
            Head { key: key.clone(), offset: entry.offset, mtime: entry.mtime }
        }))
    }

    /// Reads the current sample into memory; None, read past and counted as `too_large`, when
    /// its data, or its headers, have more than `limit` bytes.
    pub fn load(&mut self, head: Head, limit: u64) -> Result<Option<Sample>> {
        let source = Arc::clone(&self.name);
        let mut sample = Sample { key: head.key, mtime: head.mtime, source, members: Vec::new() };
        let (mut total, mut headers) = (0, 0);
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            total = u64::saturating_add(total, entry.size); // a claim, not yet backed by bytes
            headers += entry.header.len() as u64; // they are held too, and empty members have nothing else
            if total > limit || headers > limit.max(HEADERS) {
                self.tally.fail("too_large");
                messages::detail(&format!("{}: {}: larger than {limit} bytes", self.name, sample.key));
                return Ok(None);
            }
            let data = self.reader.read_data().map_err(|fault| self.broken(fault))?;
            let header = Some(entry.header).filter(|blocks| !blocks.is_empty());
            sample.members.push(Member { field, data, header });
        }
        Ok(Some(sample))
    }

    /// Passes the current sample on to `out` without holding it.
    pub fn copy<W: Write>(&mut self, out: &mut Writer<W>, mut each: impl FnMut(Passing<'_>)) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            if entry.header.is_empty() {
                out.new_header(&format!("{}.{field}", self.key), entry.size, entry.mtime)?;
            } else {
                out.raw_header(&entry.header)?;
            }
            each(Passing { field: &field, entry: &entry, data_offset: out.offset() });
            self.reader.copy_data(out).map_err(|err| match err.downcast::<Fault>() {
                Ok(fault) => self.broken(fault),
                Err(err) => err,
            })?;
        }
        Ok(())
    }

    /// Reads past the current sample, shows each member, and hands over the data of those that
    /// `wants` picks.
    pub fn look(
        &mut self,
        mut wants: impl FnMut(&Passing<'_>) -> bool,
        mut each: impl FnMut(&Passing<'_>, Option<Vec<u8>>),
    ) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            let member = Passing { field: &field, entry: &entry, data_offset: self.reader.offset() };
            let data = match wants(&member) {
                true => Some(self.reader.read_data().map_err(|fault| self.broken(fault))?),
                false => None,
            };
            each(&member, data);
        }
        Ok(())
    }

    /// Reads past the current sample and shows each member's header. Unlike the others it
    /// lets a field stand twice: whoever only looks can say so better.
    pub fn visit(&mut self, mut each: impl FnMut(Passing<'_>)) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            each(Passing { field: &field, entry: &entry, data_offset: self.reader.offset() });
        }
        Ok(())
    }

    /// Reads past the current sample and refuses in it what loading would: a field that stands twice.
    pub fn pass(&mut self) -> Result<()> {
        self.look(|_| false, |_, _| {})
    }

    /// The next member of the current sample.
    fn next_member(&mut self) -> Result<Option<(Entry, String)>> {
        if self.pending.is_none() && !self.key.is_empty() {
            self.pending = self.next_fit()?;
        }
        match self.pending.take() {
            Some((entry, key, field)) if key == self.key => Ok(Some((entry, field))),
            other => {
                self.pending = other;
                self.key.clear();
                Ok(None)
            }
        }
    }

    /// The next member that is part of a sample.
    fn next_fit(&mut self) -> Result<Option<(Entry, String, String)>> {
        loop {
            let Some(entry) = self.reader.next_entry().map_err(|fault| self.broken(fault))? else {
                return Ok(None);
            };
            if entry.kind != Kind::File {
                let code = entry.kind.code();
                self.leave_out(&LeftOut { entry: &entry, code, why: "it is not a regular file", harmless: true });
                continue;
            }
            match member_name::split(&entry.path) {
                Ok((key, field)) => {
                    let (key, field) = (key.to_owned(), field.to_owned());
                    return Ok(Some((entry, key, field)));
                }
                Err(unfit) => {
                    let (code, why, harmless) = (unfit.code(), unfit.to_string(), unfit.is_harmless());
                    self.leave_out(&LeftOut { entry: &entry, code, why: &why, harmless });
                }
            }
        }
    }

    fn leave_out(&mut self, left_out: &LeftOut<'_>) {
        let LeftOut { entry, code, why, harmless } = left_out;
        if *harmless {
            self.tally.drop(code)
        } else {
            self.tally.fail(code)
        }
        match &mut self.observer {
            Some(observer) => observer(left_out),
            None => {
                let path = String::from_utf8_lossy(&entry.path);
                messages::detail(&format!("{}: byte {}: {path}: left out: {why}", self.name, entry.offset));
            }
        }
    }

    /// An error when a sample cannot have this field too.
    fn refuse_field(&mut self, entry: &Entry, field: &str) -> Result<()> {
        let Err(refusal) = self.fields.add(field) else { return Ok(()) };
        let what = format!("sample {}: field {field} {refusal}", self.key);
        Err(self.broken(Fault { offset: entry.offset, code: refusal.code(), what }))
    }

    fn broken(&self, fault: Fault) -> anyhow::Error {
        anyhow!(fault).context(Arc::clone(&self.name))
    }
}
