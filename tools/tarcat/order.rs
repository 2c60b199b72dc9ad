//! The order of samples: sources one after another, in turn or by weight, and a shuffle buffer.

use std::collections::VecDeque;

use anyhow::Result;
use tarpipe::cli::Samples;
use tarpipe::random::Random;
use tarpipe::sample::Sample;

/// A shuffle buffer never holds more than this, whatever its number of samples.
const SHUFFLE_BYTES: u64 = 1 << 30;

/// Shuffles the sources of each argument, if there is a seed.
pub fn shuffle_sources(lists: &mut [Vec<String>], seed: Option<u64>) {
    if let Some(seed) = seed {
        let mut random = Random::new(seed);
        lists.iter_mut().for_each(|list| random.shuffle(list));
    }
}

/// Samples of several sources that are open at the same time, or of one source after another.
pub struct Mix<F> {
    sources: Vec<MixedSource>,
    waiting: VecDeque<Vec<String>>,
    open: F,
    random: Option<Random>,
    turn: usize,
}

struct MixedSource {
    samples: Samples,
    weight: f64,
}

impl<F: Fn(Vec<String>) -> Samples> Mix<F> {
    /// Reads `mix` sources in turn, or draws from the arguments by `weights`, or reads one source after another.
    pub fn new(lists: Vec<Vec<String>>, mix: Option<usize>, weights: Vec<f64>, seed: u64, open: F) -> Self {
        let random = (!weights.is_empty()).then(|| Random::new(seed));
        let (waiting, width): (VecDeque<_>, usize) = match mix {
            _ if random.is_some() => (lists.into(), usize::MAX),
            Some(n) => (lists.concat().into_iter().map(|name| vec![name]).collect(), n.max(1)),
            None => (VecDeque::from([lists.concat()]), 1),
        };
        let mut mixed = Mix { sources: Vec::new(), waiting, open, random, turn: 0 };
        let mut weights = weights.into_iter();
        while mixed.sources.len() < width {
            let Some(names) = mixed.waiting.pop_front() else { break };
            let samples = (mixed.open)(names);
            mixed.sources.push(MixedSource { samples, weight: weights.next().unwrap_or(1.0) });
        }
        mixed
    }

    /// The index of the source to read next.
    fn choose(&mut self) -> usize {
        let Some(random) = &mut self.random else { return self.turn % self.sources.len() };
        let mut left = random.fraction() * self.sources.iter().map(|source| source.weight).sum::<f64>();
        let chosen = self.sources.iter().position(|source| {
            left -= source.weight;
            left < 0.0
        });
        chosen.unwrap_or(self.sources.len() - 1)
    }
}

impl<F: Fn(Vec<String>) -> Samples> Iterator for Mix<F> {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        while !self.sources.is_empty() {
            let source = self.choose();
            if let Some(sample) = self.sources[source].samples.next() {
                self.turn = source + 1;
                return Some(sample);
            }
            match self.waiting.pop_front() {
                Some(names) => self.sources[source].samples = (self.open)(names),
                None => {
                    self.sources.remove(source);
                    self.turn = source;
                }
            }
        }
        None
    }
}

/// A buffer that returns a random sample for each one put in.
pub struct ShuffleBuffer {
    capacity: usize,
    held: Vec<Sample>,
    bytes: u64,
    random: Random,
}

impl ShuffleBuffer {
    /// A buffer of `capacity` samples; None passes samples through unshuffled.
    pub fn new(capacity: Option<usize>, seed: u64) -> Self {
        // Not the random numbers that shuffle the sources.
        let random = Random::new(seed ^ 0x5eed);
        ShuffleBuffer { capacity: capacity.unwrap_or(0), held: Vec::new(), bytes: 0, random }
    }

    /// Puts a sample in, and returns one if the buffer is full.
    pub fn swap(&mut self, sample: Sample) -> Option<Sample> {
        self.bytes += sample.bytes();
        self.held.push(sample);
        let full = self.held.len() > self.capacity || self.bytes > SHUFFLE_BYTES;
        full.then(|| self.take_random())
    }

    /// Returns the remaining samples in random order.
    pub fn drain(mut self) -> impl Iterator<Item = Sample> {
        std::iter::from_fn(move || (!self.held.is_empty()).then(|| self.take_random()))
    }

    fn take_random(&mut self) -> Sample {
        let sample = self.held.swap_remove(self.random.below(self.held.len()));
        self.bytes -= sample.bytes();
        sample
    }
}
