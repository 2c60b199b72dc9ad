//! What commands say: passed on to stderr as it comes, and the last of it kept.

use std::io::Write;

use tarpipe::messages;

/// So much of what a command said is kept at least.
const KEPT: usize = 64 * 1024;

/// The end of what a command said.
#[derive(Clone, Debug, Default)]
pub struct Log(Vec<u8>);

impl Log {
    /// Passes on and keeps some more.
    pub fn add(&mut self, bytes: &[u8]) {
        messages::without_bar(|| {
            // With stderr gone there is nobody left to tell.
            _ = std::io::stderr().lock().write_all(bytes);
        });
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * KEPT {
            self.0.drain(..self.0.len() - KEPT);
        }
    }

    /// What is kept.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}
