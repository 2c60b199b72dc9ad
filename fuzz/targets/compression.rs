//! Any bytes as a compressed stream: they end, in a bounded number of bytes or an error.

#![no_main]

use std::io::{Cursor, Read, Write};

use libfuzzer_sys::fuzz_target;
use tarpipe::compression::{self, Compression};

/// A bomb is read no further.
const MOST: u64 = 4 << 20;

fn decoded(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    compression::decoder(Box::new(Cursor::new(bytes)))?.take(MOST).read_to_end(&mut out)?;
    Ok(out)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(plain) = decoded(bytes.to_vec()) else { return };
    if !compression::is_compressed(bytes) {
        assert_eq!(plain, bytes[..bytes.len().min(MOST as usize)]);
    }
    // Whatever came out goes in and comes out again: by lz4, the fastest, and by the gzip that is ours.
    for (format, part) in [("lz4", &plain[..]), ("gzip:1", &plain[..plain.len().min(1 << 17)])] {
        let made = format.parse::<Compression>().and_then(|format| Ok(format.encoder(Vec::new(), 1)?));
        let mut encoder = made.expect("an encoder");
        encoder.write_all(part).expect("a vector takes everything");
        let packed = encoder.finish().expect("a vector takes everything");
        assert!(decoded(packed).expect("it was just packed") == part);
    }
});
