//! The inline images of iTerm2, which mintty and others have too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The picture at the cursor.
pub fn encode(png: &[u8]) -> String {
    format!("\x1b]1337;File=inline=1;size={}:{}\x07", png.len(), STANDARD.encode(png))
}
