//! SHA-256, for sidecars, indexes and splits by hash.

use sha2::{Digest as _, Sha256};

/// A running digest.
#[derive(Clone)]
pub struct Digest(Sha256);

impl Digest {
    /// The digest of nothing yet.
    #[allow(clippy::new_without_default, reason = "a default digest says nothing")]
    pub fn new() -> Self {
        Digest(Sha256::new())
    }

    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest in lower-case hexadecimal.
    pub fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A number from 0 up to 1 that depends on `text` alone: the first eight bytes of its SHA-256,
/// read as a big-endian fraction.
pub fn fraction(text: &str) -> f64 {
    let hash = Sha256::digest(text.as_bytes());
    let head = hash.iter().take(8).fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    (head >> 11) as f64 / (1_u64 << 53) as f64
}

/// The first half of the SHA-256 of `text`: enough to tell billions of keys apart.
pub fn fingerprint(text: &str) -> u128 {
    fingerprint_bytes(text.as_bytes())
}

/// The same of any bytes.
pub fn fingerprint_bytes(bytes: &[u8]) -> u128 {
    let hash = Sha256::digest(bytes);
    hash.iter().take(16).fold(0, |number: u128, &byte| number << 8 | u128::from(byte))
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
