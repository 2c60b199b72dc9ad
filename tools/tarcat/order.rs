//! In which order samples come: sources in turn, by weight, shuffled.

use std::collections::VecDeque;

use anyhow::Result;
use tarpipe::cli::Samples;
use tarpipe::random::Random;
use tarpipe::sample::Sample;

/// What a shuffle buffer holds at most, whatever number of samples that is.
const SHUFFLE_BYTES: u64 = 1 << 30;

/// Shuffles the sources within their arguments.
pub fn shuffle_sources(lists: &mut [Vec<String>], seed: Option<u64>) {
    if let Some(seed) = seed {
        let mut random = Random::new(seed);
        lists.iter_mut().for_each(|list| random.shuffle(list));
    }
}

/// Several sources read side by side; one, without a reason for more.
pub struct Mix<F> {
    lanes: Vec<Lane>,
    waiting: VecDeque<Vec<String>>,
    open: F,
    random: Option<Random>,
    turn: usize,
}

struct Lane {
    samples: Samples,
    weight: f64,
}

impl<F: Fn(Vec<String>) -> Samples> Mix<F> {
    /// One source after another, `mix` sources in turn, or the arguments by `weights`.
    pub fn new(lists: Vec<Vec<String>>, mix: Option<usize>, weights: Vec<f64>, seed: u64, open: F) -> Self {
        let random = (!weights.is_empty()).then(|| Random::new(seed));
        let (waiting, width): (VecDeque<_>, usize) = match mix {
            _ if random.is_some() => (lists.into(), usize::MAX),
            Some(n) => (lists.concat().into_iter().map(|name| vec![name]).collect(), n.max(1)),
            None => (VecDeque::from([lists.concat()]), 1),
        };
        let mut mixed = Mix { lanes: Vec::new(), waiting, open, random, turn: 0 };
        let mut weights = weights.into_iter();
        while mixed.lanes.len() < width {
            let Some(names) = mixed.waiting.pop_front() else { break };
            let samples = (mixed.open)(names);
            mixed.lanes.push(Lane { samples, weight: weights.next().unwrap_or(1.0) });
        }
        mixed
    }

    /// Whose turn it is.
    fn choose(&mut self) -> usize {
        let Some(random) = &mut self.random else { return self.turn % self.lanes.len() };
        let mut left = random.fraction() * self.lanes.iter().map(|lane| lane.weight).sum::<f64>();
        let chosen = self.lanes.iter().position(|lane| {
            left -= lane.weight;
            left < 0.0
        });
        chosen.unwrap_or(self.lanes.len() - 1)
    }
}

impl<F: Fn(Vec<String>) -> Samples> Iterator for Mix<F> {
    type Item = Result<Sample>;

    fn next(&mut self) -> Option<Result<Sample>> {
        while !self.lanes.is_empty() {
            let lane = self.choose();
            if let Some(sample) = self.lanes[lane].samples.next() {
                self.turn = lane + 1;
                return Some(sample);
            }
            match self.waiting.pop_front() {
                Some(names) => self.lanes[lane].samples = (self.open)(names),
                None => {
                    self.lanes.remove(lane);
                    self.turn = lane;
                }
            }
        }
        None
    }
}

/// A buffer that gives out a random sample for each one put in.
pub struct Shuffle {
    capacity: usize,
    held: Vec<Sample>,
    bytes: u64,
    random: Random,
}

impl Shuffle {
    /// A buffer of `capacity` samples; None passes samples through.
    pub fn new(capacity: Option<usize>, seed: u64) -> Self {
        // Another stream of numbers than the one that shuffles the sources.
        let random = Random::new(seed ^ 0x5eed);
        Shuffle { capacity: capacity.unwrap_or(0), held: Vec::new(), bytes: 0, random }
    }

    /// Puts a sample in; gives one out when the buffer is full.
    pub fn swap(&mut self, sample: Sample) -> Option<Sample> {
        self.bytes += sample.bytes();
        self.held.push(sample);
        let full = self.held.len() > self.capacity || self.bytes > SHUFFLE_BYTES;
        full.then(|| self.give())
    }

    /// Gives out all that is left.
    pub fn drain(mut self) -> impl Iterator<Item = Sample> {
        std::iter::from_fn(move || (!self.held.is_empty()).then(|| self.give()))
    }

    fn give(&mut self) -> Sample {
        let sample = self.held.swap_remove(self.random.below(self.held.len()));
        self.bytes -= sample.bytes();
        sample
    }
}
