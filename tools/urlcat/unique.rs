//! URLs that were seen, in bounded memory.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

/// URLs of one generation: two of them are kept.
const GENERATION: usize = 8 << 20;

/// Remembers 128 bits of each URL: the odds that two of a billion share them are 1 to 10^20.
/// When a generation is full, the one before it is forgotten.
#[derive(Default)]
pub struct Unique {
    young: HashSet<u128, BuildHasherDefault<Folded>>,
    old: HashSet<u128, BuildHasherDefault<Folded>>,
}

impl Unique {
    /// Whether `url` was not seen before; it is now.
    pub fn is_new(&mut self, url: &str) -> bool {
        let mark = mark(url);
        if self.young.contains(&mark) || self.old.contains(&mark) {
            return false;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(mark)
    }
}

fn mark(url: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
        hasher.write_u8(salt);
        hasher.write(url.as_bytes());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// The marks are hashes already.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, mark: u128) {
        self.0 = mark as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
