//! Text on its way to stdout or a file.

use std::io::{IsTerminal, Write, stdout};

use anyhow::Result;
use tarpipe::sink::{self, Options, Sink};

/// Gathers small pieces; a file appears under its name only after [`Output::finish`].
pub struct Output {
    sink: Sink,
    buf: Vec<u8>,
    /// What is gathered before it is written: nothing on a terminal, where somebody waits.
    gather: usize,
}

impl Output {
    pub fn create(name: &str) -> Result<Self> {
        let gather = if is_terminal(name) { 0 } else { 64 << 10 };
        Ok(Output { sink: Sink::create(name, Options::default())?, buf: Vec::new(), gather })
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

/// Whether what is written to `name` is seen as it is.
pub fn is_terminal(name: &str) -> bool {
    sink::is_stdout(name) && stdout().is_terminal()
}

/// How many columns the terminal behind stdout has.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}
