//! Numbers in as few bytes as possible: LEB128, seven bits per byte, the lowest
//! first.

use std::io::{self, Read};

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; None if it is incomplete or too long.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Some(number);
        }
    }
    None
}

/// Reads a number; None at the end of the input.
pub(super) fn read(input: &mut impl Read) -> io::Result<Option<u64>> {
    let (mut number, mut shift) = (0, 0);
    let mut byte = [0];
    loop {
        if input.read(&mut byte)? == 0 {
            return if shift == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok(Some(number));
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(read(&mut &bytes[..]).unwrap(), Some(number));
            assert_eq!(take(&mut &bytes[..]), Some(number));
            assert!(take(&mut &bytes[..bytes.len() - 1]).is_none());
        }
        assert_eq!(read(&mut &[][..]).unwrap(), None);
        assert!(read(&mut &[0x80][..]).is_err());
    }
}
