//! Reads samples from an archive: members are grouped by key, in order, without
//! reading ahead.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, anyhow};

use crate::archive::{self, ArchiveEntry, ArchiveReader, ArchiveWriter, EntryKind, Fault};
use crate::location;
use crate::messages;
use crate::sample::fields::FieldSet;
use crate::sample::member_name;
use crate::sample::{Member, Sample};
use crate::source;
use crate::tally::Tally;

/// This many bytes of headers do not count towards the size limit of a sample.
const HEADERS: u64 = 1 << 20;

/// What is known of a sample before its data is read.
#[derive(Clone, Debug)]
pub struct SampleHead {
    /// The key that its members share.
    pub key: String,
    /// The offset of its first header in the stream.
    pub offset: u64,
    /// Modification time of its first member.
    pub mtime: u64,
}

/// The samples of one archive, or of several concatenated ones.
///
/// Call [`SampleStream::next`] for the head of a sample, and then one of five
/// methods to consume it: [`load`](SampleStream::load) it into memory,
/// [`copy`](SampleStream::copy) it to another archive,
/// [`inspect`](SampleStream::inspect) some of its fields,
/// [`examine`](SampleStream::examine) all of them, or [`skip`](SampleStream::skip) it. A
/// sample that is not consumed is skipped by the next call of `next`, without
/// checking for duplicate fields.
///
/// Members that do not belong to any sample are left out: counted in the
/// [`Tally`] and reported with `-v`, or to an [`Observer`]. A damaged archive
/// or a duplicate field is an error, with the stream's name as context and a
/// [`Fault`] as its cause; the stream must not be used any further then.
///
/// ```
/// use std::io::Cursor;
/// use tarpipe::archive::{ArchiveReader, ArchiveWriter};
/// use tarpipe::sample::stream::SampleStream;
///
/// let mut writer = ArchiveWriter::new(Vec::new());
/// for name in ["cat.txt", "cat.json", "dog.txt"] {
///     writer.new_header(name, 0, 0)?;
/// }
/// let input = Box::new(Cursor::new(writer.finish()?));
/// let mut stream = SampleStream::new("pets.tar", ArchiveReader::new(input, false));
/// let mut fields = Vec::new();
/// while let Some(head) = stream.next()? {
///     let sample = stream.load(head, 1 << 20)?.expect("smaller than a megabyte");
///     fields.push((sample.key, sample.members.len()));
/// }
/// assert_eq!(fields, [("cat".to_owned(), 2), ("dog".to_owned(), 1)]);
/// # anyhow::Ok(())
/// ```
pub struct SampleStream<R = Box<dyn io::Read + Send>> {
    name: Arc<str>,
    reader: ArchiveReader<R>,
    /// A member whose data has not been read yet: the first of the next sample.
    pending: Option<(ArchiveEntry, String, String)>,
    /// The fields seen in the current sample.
    fields: FieldSet,
    key: String,
    tally: Tally,
    observer: Option<Observer>,
}

/// A callback for every member that is left out.
pub type Observer = Box<dyn FnMut(&LeftOut<'_>) + Send>;

/// A member that does not belong to any sample.
pub struct LeftOut<'a> {
    /// Its header.
    pub entry: &'a ArchiveEntry,
    /// The reason code.
    pub code: &'static str,
    /// The reason in words.
    pub why: &'a str,
    /// Whether it was never meant to be part of a sample, and so counts as
    /// dropped, not failed.
    pub harmless: bool,
}

/// A member of the current sample, while it is being consumed.
pub struct MemberView<'a> {
    /// Its field.
    pub field: &'a str,
    /// Its header.
    pub entry: &'a ArchiveEntry,
    /// The offset of its data: in the output for [`SampleStream::copy`], in the
    /// input otherwise.
    pub data_offset: u64,
}

impl SampleStream {
    /// Opens a source, decompressed, as a stream of samples. `ignore_eof` is as
    /// in [`ArchiveReader::new`]. Errors contain the name.
    pub fn open(name: &str, ignore_eof: bool) -> Result<Self> {
        let input = source::open(name).map_err(|err| err.context(location::display(name)))?;
        Ok(SampleStream::new(name, ArchiveReader::new(input, ignore_eof)))
    }
}

impl<R: io::Read> SampleStream<R> {
    /// The samples of an archive; `name` is what messages call it, after
    /// secrets are masked.
    pub fn new(name: &str, reader: ArchiveReader<R>) -> Self {
        SampleStream {
            name: location::display(name).into(),
            reader,
            pending: None,
            fields: FieldSet::default(),
            key: String::new(),
            tally: Tally::default(),
            observer: None,
        }
    }

    /// Has `observer` called for members that are left out, instead of
    /// reporting them with `-v`. They are counted as well.
    pub fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// What messages call this stream.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the current sample; empty once it has been consumed.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What was left out so far. Samples are not counted here.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Moves on to the next sample and returns its head; None after the last.
    /// Reads past what is left of the current sample.
    ///
    /// # Errors
    ///
    /// The input fails, ends early or is not a tar archive; the error has the
    /// source and the byte offset. Members that cannot belong to a sample are
    /// counted, not errors.
    #[allow(clippy::should_implement_trait, reason = "it can fail, and lends the stream to the sample")]
    pub fn next(&mut self) -> Result<Option<SampleHead>> {
        while self.next_member()?.is_some() {}
        if self.pending.is_none() {
            self.pending = self.next_fit()?;
        }
        self.fields.clear();
        Ok(self.pending.as_ref().map(|(entry, key, _)| {
            self.key.clone_from(key);
            SampleHead { key: key.clone(), offset: entry.offset, mtime: entry.mtime }
        }))
    }

    /// Reads the current sample into memory. Returns None if its data, or its
    /// headers, have more than `limit` bytes; the sample is then counted as
    /// `too_large` and skipped. Never holds more than about `limit` bytes of
    /// data, or 1 MB of headers if that is more.
    ///
    /// # Errors
    ///
    /// The archive is damaged, or a field appears twice in the sample.
    pub fn load(&mut self, head: SampleHead, limit: u64) -> Result<Option<Sample>> {
        let source = Arc::clone(&self.name);
        let mut sample = Sample { key: head.key, mtime: head.mtime, source, members: Vec::new() };
        let (mut total, mut headers) = (0, 0);
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            total = u64::saturating_add(total, entry.size); // announced, not verified yet
            headers += entry.header.len() as u64; // held too, and all that empty members have
            if total > limit || headers > limit.max(HEADERS) {
                let item = format!("{}: {}", self.name, sample.key);
                self.tally.leave_out("too_large", &item, &format_args!("larger than {limit} bytes"));
                return Ok(None);
            }
            let data = self.reader.read_data().map_err(|fault| self.broken(fault))?;
            let header = Some(entry.header).filter(|blocks| !blocks.is_empty());
            sample.members.push(Member { field, data, header });
        }
        Ok(Some(sample))
    }

    /// Copies the current sample to `out` without holding it in memory. `each`
    /// is called for every member after its header was written. Headers are
    /// copied unchanged if they are self-contained.
    ///
    /// # Errors
    ///
    /// The archive is damaged, a field appears twice in the sample, or `out`
    /// fails. What was written of the sample stays in `out`, so the output must
    /// not be finished.
    pub fn copy<W: Write>(&mut self, out: &mut ArchiveWriter<W>, mut each: impl FnMut(MemberView<'_>)) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            if entry.header.is_empty() {
                out.new_header(&format!("{}.{field}", self.key), entry.size, entry.mtime)?;
            } else {
                out.raw_header(&entry.header)?;
            }
            each(MemberView { field: &field, entry: &entry, data_offset: out.offset() });
            self.reader.copy_data(out).map_err(|err| match err.downcast::<Fault>() {
                Ok(fault) => self.broken(fault),
                Err(err) => err,
            })?;
        }
        Ok(())
    }

    /// Reads the current sample and calls `each` for every member, with the
    /// data of those for which `wants` returns true; the others are skipped.
    ///
    /// # Errors
    ///
    /// The archive is damaged, or a field appears twice in the sample. There is
    /// no limit on the size of the members that `wants` selects.
    pub fn inspect(
        &mut self,
        mut wants: impl FnMut(&MemberView<'_>) -> bool,
        mut each: impl FnMut(&MemberView<'_>, Option<Vec<u8>>),
    ) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            self.refuse_field(&entry, &field)?;
            let member = MemberView { field: &field, entry: &entry, data_offset: self.reader.offset() };
            let data = match wants(&member) {
                true => Some(self.reader.read_data().map_err(|fault| self.broken(fault))?),
                false => None,
            };
            each(&member, data);
        }
        Ok(())
    }

    /// Calls `each` for every member of the current sample, with the data of
    /// those for which `wants` returns true; the others are skipped. Unlike the
    /// other methods it accepts duplicate fields, so that the caller (tarcheck)
    /// can report them itself.
    ///
    /// # Errors
    ///
    /// The archive is damaged. There is no limit on the size of the members
    /// that `wants` selects.
    pub fn examine(
        &mut self,
        mut wants: impl FnMut(&MemberView<'_>) -> bool,
        mut each: impl FnMut(&MemberView<'_>, Option<&[u8]>),
    ) -> Result<()> {
        while let Some((entry, field)) = self.next_member()? {
            let member = MemberView { field: &field, entry: &entry, data_offset: self.reader.offset() };
            let data = match wants(&member) {
                true => Some(self.reader.read_data().map_err(|fault| self.broken(fault))?),
                false => None,
            };
            each(&member, data.as_deref());
        }
        Ok(())
    }

    /// Skips the current sample, but fails if it has a duplicate field, as
    /// loading it would.
    pub fn skip(&mut self) -> Result<()> {
        self.inspect(|_| false, |_, _| {})
    }

    /// The next member of the current sample.
    fn next_member(&mut self) -> Result<Option<(ArchiveEntry, String)>> {
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

    /// The next member that belongs to a sample.
    fn next_fit(&mut self) -> Result<Option<(ArchiveEntry, String, String)>> {
        loop {
            let Some(entry) = self.reader.next_entry().map_err(|fault| self.broken(fault))? else {
                return Ok(None);
            };
            if entry.kind != EntryKind::File {
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

    /// Counts a member that is left out, and reports it.
    fn leave_out(&mut self, left_out: &LeftOut<'_>) {
        let LeftOut { entry, code, why, harmless } = left_out;
        let path = String::from_utf8_lossy(&entry.path);
        let item = format!("{}: byte {}: {path}", self.name, entry.offset);
        if *harmless {
            self.tally.drop(code)
        } else {
            self.tally.fail_as(code, || format!("{item}: {why}"));
        }
        match &mut self.observer {
            Some(observer) => observer(left_out),
            None => messages::detail(&format!("{item}: left out: {why}")),
        }
    }

    /// Fails if the sample cannot have this field as well.
    fn refuse_field(&mut self, entry: &ArchiveEntry, field: &str) -> Result<()> {
        let Err(refusal) = self.fields.add(field) else { return Ok(()) };
        let what = format!("sample {}: field {field} {refusal}", self.key);
        Err(self.broken(Fault { offset: entry.offset, code: refusal.code(), what }))
    }

    /// A fault as an error, with the stream's name.
    fn broken(&self, mut fault: Fault) -> anyhow::Error {
        if fault.what == archive::EMPTY_INPUT && &*self.name == "stdin" {
            fault.what = "empty input; did the command before this one fail?".into();
        }
        anyhow!(fault).context(Arc::clone(&self.name))
    }
}
