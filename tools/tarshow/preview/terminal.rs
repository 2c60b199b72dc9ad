//! Detects the graphics protocol of the terminal: from the environment, else by querying the terminal.

use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::Protocol;

/// A terminal that supports the query answers within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(300);

/// The best protocol that the terminal supports.
pub fn detect() -> Protocol {
    // Inside a multiplexer the environment describes the outer terminal, which does not receive our output.
    if !is_multiplexed()
        && let Some(protocol) = from_environment()
    {
        return protocol;
    }
    if has_sixel() { Protocol::Sixel } else { Protocol::Blocks }
}

/// Whether the terminal declares 24-bit colour.
pub fn has_true_colors() -> bool {
    matches!(variable("COLORTERM").as_str(), "truecolor" | "24bit")
}

fn from_environment() -> Option<Protocol> {
    let (term, program) = (variable("TERM"), variable("TERM_PROGRAM"));
    if term == "xterm-kitty" || term == "xterm-ghostty" || program == "ghostty" || program == "WezTerm" {
        return Some(Protocol::Kitty);
    }
    let iterm = program == "iTerm.app" || variable("LC_TERMINAL") == "iTerm2" || program == "mintty";
    iterm.then_some(Protocol::Iterm)
}

fn is_multiplexed() -> bool {
    let term = variable("TERM");
    !variable("TMUX").is_empty() || term.starts_with("screen") || term.starts_with("tmux")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Queries the terminal's attributes; attribute 4 is sixel.
fn has_sixel() -> bool {
    let answer = query(b"\x1b[c").unwrap_or_default();
    let attributes = answer.strip_prefix("\x1b[?").and_then(|rest| rest.strip_suffix('c'));
    attributes.is_some_and(|attributes| attributes.split(';').any(|number| number == "4"))
}

/// Sends a query to the terminal and reads the answer without echo.
fn query(question: &[u8]) -> Option<String> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    let before = tcgetattr(&terminal).ok()?;
    let mut quiet = before.clone();
    quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(&terminal, OptionalActions::Flush, &quiet).ok()?;
    let restore = RestoreTerminal(terminal.try_clone().ok()?, before);
    terminal.write_all(question).ok()?;
    let answer = read_answer(&mut terminal);
    drop(restore);
    String::from_utf8(answer).ok()
}

/// Restores the terminal's settings when dropped.
struct RestoreTerminal(File, Termios);

impl Drop for RestoreTerminal {
    fn drop(&mut self) {
        _ = tcsetattr(&self.0, OptionalActions::Flush, &self.1);
    }
}

fn read_answer(terminal: &mut File) -> Vec<u8> {
    let (began, mut answer, mut byte) = (Instant::now(), Vec::new(), [0]);
    while let Some(left) = ANSWER_TIMEOUT.checked_sub(began.elapsed()) {
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let ready = poll(&mut [PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN)], Some(&wait));
        if ready != Ok(1) || terminal.read(&mut byte).unwrap_or(0) == 0 {
            break;
        }
        answer.push(byte[0]);
        if byte[0] == b'c' || answer.len() > 100 {
            break;
        }
    }
    answer
}
