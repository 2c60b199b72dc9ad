//! SHA-256 and what is derived from it: checksums of shards (sidecars,
//! indexes), splits by hash, and fingerprints of keys.
//!
//! Results depend on the bytes alone. They are part of file formats and of
//! which sample falls into which split, so they must never change.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

use sha2::{Digest as _, Sha256};

/// A running SHA-256. Cloning it copies the state, so that a prefix can be
/// hashed once.
///
/// ```
/// use tarpipe::digest::Digest;
///
/// let mut digest = Digest::new();
/// digest.update(b"ab");
/// digest.update(b"c");
/// assert!(digest.hex().starts_with("ba7816bf8f01cfea"));
/// ```
#[derive(Clone)]
pub struct Digest(Sha256);

impl Digest {
    /// The digest of no bytes.
    #[allow(clippy::new_without_default, reason = "new() says that it is empty")]
    pub fn new() -> Self {
        Digest(Sha256::new())
    }

    /// Appends bytes. The result does not depend on how they were divided into
    /// calls.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest as 64 lower-case hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Maps `text` to a number in [0, 1), uniformly: the first eight bytes of its
/// SHA-256 as a big-endian fraction, rounded down to 53 bits. tarsplit assigns
/// samples to splits with it.
///
/// ```
/// assert_eq!(tarpipe::digest::fraction("key"), tarpipe::digest::fraction("key"));
/// ```
pub fn fraction(text: &str) -> f64 {
    let hash = Sha256::digest(text.as_bytes());
    let head = hash.iter().take(8).fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    (head >> 11) as f64 / (1_u64 << 53) as f64
}

/// The first 128 bits of the SHA-256 of `text`. With a billion keys the
/// probability that any two collide is below 10⁻²⁰, so equal fingerprints are
/// taken for equal keys.
pub fn fingerprint(text: &str) -> u128 {
    fingerprint_bytes(text.as_bytes())
}

/// The same as [`fingerprint`] for bytes that need not be UTF-8.
pub fn fingerprint_bytes(bytes: &[u8]) -> u128 {
    let hash = Sha256::digest(bytes);
    hash.iter().take(16).fold(0, |number: u128, &byte| number << 8 | u128::from(byte))
}

/// 128 bits of a fast hash of `text`, for sets that live as long as the process:
/// unlike [`fingerprint`] it may change with the compiler, so it must never be
/// stored, and somebody who tries can make two texts collide.
pub fn quick_fingerprint(text: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(text.as_bytes());
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Values by fingerprint: 20 to 40 bytes of memory each, besides the value. The
/// fingerprints are not hashed again.
pub type FingerprintMap<V> = HashMap<u128, V, BuildHasherDefault<IdentityHasher>>;

/// Hashes nothing: the keys are hashes already.
#[derive(Default)]
pub struct IdentityHasher(u64);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha_256() {
        let mut digest = Digest::new();
        digest.update(b"ab");
        digest.update(b"c");
        assert_eq!(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(fingerprint("abc") >> 64, 0xba78_16bf_8f01_cfea);
        assert!((fraction("abc") - f64::from(0xba78_16bf_u32) / 2_f64.powi(32)).abs() < 1e-9);
    }
}
