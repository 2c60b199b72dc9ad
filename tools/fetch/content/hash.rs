//! Hashes of fetched files, in hexadecimal: recorded in the report and compared by `--verify`.

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// The values of `--hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HashAlgorithm {
    /// Short, and collision-resistant.
    Sha256,
    /// Longer than SHA-256.
    Sha512,
    /// For tables that contain MD5; not collision-resistant.
    Md5,
    /// No hash, which saves CPU time.
    None,
}

impl HashAlgorithm {
    /// The name on the command line and in the JSON of samples.
    pub fn name(self) -> &'static str {
        match self {
            HashAlgorithm::Sha256 => "sha256",
            HashAlgorithm::Sha512 => "sha512",
            HashAlgorithm::Md5 => "md5",
            HashAlgorithm::None => "none",
        }
    }

    pub fn of(self, data: &[u8]) -> String {
        match self {
            HashAlgorithm::Sha256 => hex(&Sha256::digest(data)),
            HashAlgorithm::Sha512 => hex(&Sha512::digest(data)),
            HashAlgorithm::Md5 => hex(&Md5::digest(data)),
            HashAlgorithm::None => String::new(),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
