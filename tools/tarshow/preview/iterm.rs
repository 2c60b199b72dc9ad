//! Inline images of iTerm2, which mintty and others also support.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The escape sequence that shows the picture at the cursor.
pub fn encode(png: &[u8]) -> String {
    format!("\x1b]1337;File=inline=1;size={}:{}\x07", png.len(), STANDARD.encode(png))
}
