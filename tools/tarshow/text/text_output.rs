//! Buffered text output to stdout or a file.

use std::io::{IsTerminal, Write, stdout};

use anyhow::Result;
use tarpipe::sink::{self, Sink, SinkOptions};

/// Buffers small writes; a file appears under its name only after [`TextOutput::finish`].
pub struct TextOutput {
    sink: Sink,
    buf: Vec<u8>,
    /// Bytes to buffer: none on a terminal, where somebody is waiting.
    gather: usize,
}

impl TextOutput {
    pub fn create(name: &str) -> Result<Self> {
        let gather = if is_terminal(name) { 0 } else { 64 << 10 };
        Ok(TextOutput { sink: Sink::create(name, SinkOptions::default())?, buf: Vec::new(), gather })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buf.extend_from_slice(bytes);
        if self.buf.len() > self.gather {
            self.sink.write_all(&self.buf)?;
            self.buf.clear();
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<()> {
        self.sink.write_all(&self.buf)?;
        self.sink.finish().map(drop)
    }
}

/// Whether `name` is stdout and stdout is a terminal.
pub fn is_terminal(name: &str) -> bool {
    sink::is_stdout(name) && stdout().is_terminal()
}

/// The width of the terminal behind stdout.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}
