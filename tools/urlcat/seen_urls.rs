//! Remembers the URLs seen so far, in bounded memory, for --unique.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

/// URLs per generation; two generations are kept.
const GENERATION: usize = 8 << 20;

/// A 128-bit hash of each URL: the odds of a collision among a billion URLs are 1 to 10^20.
/// When a generation is full, the one before it is dropped.
#[derive(Default)]
pub struct SeenUrls {
    young: HashSet<u128, BuildHasherDefault<IdentityHasher>>,
    old: HashSet<u128, BuildHasherDefault<IdentityHasher>>,
}

impl SeenUrls {
    /// Whether `url` is new; remembers it.
    pub fn is_new(&mut self, url: &str) -> bool {
        let hash = hash_of(url);
        if self.young.contains(&hash) || self.old.contains(&hash) {
            return false;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash)
    }
}

fn hash_of(url: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
        hasher.write_u8(salt);
        hasher.write(url.as_bytes());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Hashes nothing: the values are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
