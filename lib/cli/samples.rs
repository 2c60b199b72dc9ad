//! The samples of many sources, one after another.

use anyhow::Result;

use crate::sample::Sample;
use crate::sample::stream::Stream;
use crate::source;
use crate::tally::SharedTally;

/// Iterates over whole samples in memory. After an error it goes on with the next source, for
/// those who can bear the loss.
///
/// It can move to another thread; what it left out is then known through a clone of
/// [`Samples::tally`].
pub struct Samples {
    names: std::vec::IntoIter<String>,
    stream: Option<Stream>,
    ignore_eof: bool,
    max_sample: u64,
    tally: SharedTally,
}

impl Samples {
    /// The samples of these sources; those over `max_sample` bytes are left out.
    pub fn new(names: Vec<String>, ignore_eof: bool, max_sample: u64) -> Self {
        Samples { names: names.into_iter(), stream: None, ignore_eof, max_sample, tally: SharedTally::default() }
    }

    /// The same, counting into a tally that several have in common.
    pub fn counted_in(mut self, tally: &SharedTally) -> Self {
        self.tally = tally.clone();
        self
    }

    /// What was left out of the sources that were closed so far.
    pub fn tally(&self) -> SharedTally {
        self.tally.clone()
    }

    fn read(&mut self) -> Result<Option<Sample>> {
        loop {
            let Some(stream) = &mut self.stream else {
                let Some(name) = self.names.next() else { return Ok(None) };
                let stream = Stream::open(&name, self.ignore_eof);
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

    fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.tally.merge(stream.tally());
        }
    }
}

/// The next sample that is not too large.
fn next_whole(stream: &mut Stream, max_sample: u64) -> Result<Option<Sample>> {
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
