//! The hash of a file, in hexadecimal.

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// Which hash is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Hash {
    /// The default: short enough, and nobody forges it.
    Sha256,
    /// Longer.
    Sha512,
    /// What older tables hold.
    Md5,
    /// No hash: a body costs less CPU without.
    None,
}

impl Hash {
    /// Its name as a flag, a column and a key of the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Hash::Sha256 => "sha256",
            Hash::Sha512 => "sha512",
            Hash::Md5 => "md5",
            Hash::None => "none",
        }
    }

    /// The hash of `data`.
    pub fn of(self, data: &[u8]) -> String {
        match self {
            Hash::Sha256 => hex(&Sha256::digest(data)),
            Hash::Sha512 => hex(&Sha512::digest(data)),
            Hash::Md5 => hex(&Md5::digest(data)),
            Hash::None => String::new(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
