//! Remembers the URLs seen so far, in bounded memory, for --unique.

use tarpipe::digest::{FingerprintMap, quick_fingerprint};

/// URLs per generation; two generations are kept.
const GENERATION: usize = 8 << 20;

/// A 128-bit hash of each URL: the odds of a collision among a billion URLs are 1 to 10^20.
/// When a generation is full, the one before it is dropped.
#[derive(Default)]
pub struct SeenUrls {
    young: FingerprintMap<()>,
    old: FingerprintMap<()>,
}

impl SeenUrls {
    /// Whether `url` is new; remembers it.
    pub fn is_new(&mut self, url: &str) -> bool {
        let hash = quick_fingerprint(url);
        if self.young.contains_key(&hash) || self.old.contains_key(&hash) {
            return false;
        }
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, ()).is_none()
    }
}
