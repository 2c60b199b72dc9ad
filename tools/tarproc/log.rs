//! The output of a command: passed on to stderr at once, and the last part of it kept.

use std::io::Write;

use tarpipe::messages;

/// At least this much of the output is kept.
const KEPT: usize = 64 * 1024;

/// The last part of a command's output.
#[derive(Clone, Debug, Default)]
pub struct CommandLog(Vec<u8>);

impl CommandLog {
    /// Passes output on to stderr, and keeps it.
    pub fn add(&mut self, bytes: &[u8]) {
        messages::without_bar(|| {
            // If stderr is gone, nobody can be told.
            _ = std::io::stderr().lock().write_all(bytes);
        });
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * KEPT {
            self.0.drain(..self.0.len() - KEPT);
        }
    }

    /// The kept output.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
