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
    if !Compression::recognises(bytes) {
        assert_eq!(plain, bytes[..bytes.len().min(MOST as usize)]);
        return;
    }
    // Whatever came out goes in and comes out again. lz4 is the fastest.
    let mut encoder = "lz4".parse::<Compression>().and_then(|lz4| Ok(lz4.encoder(Vec::new(), 1)?)).expect("an encoder");
    encoder.write_all(&plain).expect("a vector takes everything");
    let packed = encoder.finish().expect("a vector takes everything");
    assert!(decoded(packed).expect("it was just packed") == plain);
});
