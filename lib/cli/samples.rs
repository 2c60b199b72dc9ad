//! The samples of several sources, one after another.

use anyhow::Result;

use crate::sample::Sample;
use crate::sample::stream::SampleStream;
use crate::source;
use crate::tally::SharedTally;

/// Iterates over the samples of a list of sources, each loaded into memory.
/// Opens a source when the previous one is finished, and prefetches the one
/// after it if it is an object.
///
/// After an error the iterator continues with the next source, for tools that
/// tolerate damaged sources; samples before the damage have been returned by
/// then. Samples over the size limit, and members that belong to none, are left
/// out and counted.
///
/// It can be moved to another thread. Clones of [`Samples::tally`] then show
/// what was left out.
///
/// ```
/// use tarpipe::cli::Samples;
///
/// let sources = vec!["pipe:tar c --files-from /dev/null".to_owned()];
/// for sample in Samples::new(sources, false, 1 << 30) {
///     let sample = sample?; // a damaged source is an error, and the next call goes on behind it
///     assert!(sample.bytes() <= 1 << 30);
/// }
/// # anyhow::Ok(())
/// ```
pub struct Samples {
    names: std::vec::IntoIter<String>,
    stream: Option<SampleStream>,
    ignore_eof: bool,
    max_sample: u64,
    tally: SharedTally,
}

impl Samples {
    /// The samples of these sources; those with more than `max_sample` bytes
    /// are left out.
    pub fn new(names: Vec<String>, ignore_eof: bool, max_sample: u64) -> Self {
        Samples { names: names.into_iter(), stream: None, ignore_eof, max_sample, tally: SharedTally::default() }
    }

    /// Counts what is left out in a given tally, which several iterators can
    /// share.
    pub fn counted_in(mut self, tally: &SharedTally) -> Self {
        self.tally = tally.clone();
        self
    }

    /// What was left out of the sources that are finished. Complete only when
    /// the iterator is exhausted or dropped.
    pub fn tally(&self) -> SharedTally {
        self.tally.clone()
    }

    /// The next sample of the current source, or of the next one.
    fn read(&mut self) -> Result<Option<Sample>> {
        loop {
            let Some(stream) = &mut self.stream else {
                let Some(name) = self.names.next() else { return Ok(None) };
                let stream = SampleStream::open(&name, self.ignore_eof);
                self.names.as_slice().first().into_iter().for_each(|next| source::prefetch(next));
                self.stream = Some(stream?);
                continue;
            };
            match next_whole(stream, self.max_sample) {
                Ok(Some(sample)) => return Ok(Some(sample)),
                Ok(None) => self.close(),
                Err(err) => {
                    self.close();
                    return Err(err);
                }
            }
        }
    }

    /// Ends the current source and adds up what it left out.
    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.tally.merge(stream.tally());
        }
    }
}

/// The next sample that is not too large.
fn next_whole(stream: &mut SampleStream, max_sample: u64) -> Result<Option<Sample>> {
    while let Some(head) = stream.next()? {
        if let Some(sample) = stream.load(head, max_sample)? {
            return Ok(Some(sample));
        }
    }
    Ok(None)
}

impl Drop for Samples {
    fn drop(&mut self) {
        self.close();
    }
}

impl Iterator for Samples {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        self.read().transpose()
    }
}
