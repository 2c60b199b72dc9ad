//! The graphics protocol of kitty, Ghostty and WezTerm: a PNG in base64, in chunks of 4096 bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The escape sequences that show the picture at the cursor.
pub fn encode(png: &[u8]) -> String {
    let data = STANDARD.encode(png);
    let pieces: Vec<&str> = data.as_bytes().chunks(4096).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
    let mut out = String::with_capacity(data.len() + pieces.len() * 16);
    for (at, piece) in pieces.iter().enumerate() {
        // a=T shows the picture at once, f=100 is PNG, q=2 suppresses the terminal's answer.
        let keys = if at == 0 { "a=T,f=100,q=2," } else { "" };
        let more = u8::from(at + 1 < pieces.len());
        out += &format!("\x1b_G{keys}m={more};{piece}\x1b\\");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pictures_come_in_pieces_that_join() {
        let png: Vec<u8> = (0..5000_u32).map(|i| i as u8).collect();
        let text = encode(&png);
        let pieces: Vec<&str> = text.split("\x1b\\").filter(|piece| !piece.is_empty()).collect();
        assert_eq!(pieces.len(), 2);
        assert!(pieces[0].starts_with("\x1b_Ga=T,f=100,q=2,m=1;") && pieces[1].starts_with("\x1b_Gm=0;"));
        let joined: String = pieces.iter().filter_map(|piece| piece.split(';').nth(1)).collect();
        assert_eq!(STANDARD.decode(joined).unwrap(), png);
    }
}
