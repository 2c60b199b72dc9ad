//! Which terminal this is: by its environment, and where that says nothing by asking it.

use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::Protocol;

/// A terminal that has not answered by then will not.
const PATIENCE: Duration = Duration::from_millis(300);

/// The best protocol that the terminal understands.
pub fn detect() -> Protocol {
    // Inside a multiplexer the environment tells of a terminal that does not see what is printed.
    if !is_multiplexed()
        && let Some(protocol) = by_environment()
    {
        return protocol;
    }
    if has_sixel() { Protocol::Sixel } else { Protocol::Blocks }
}

/// Whether the terminal says that it has 24 bits a colour.
pub fn has_true_colors() -> bool {
    matches!(variable("COLORTERM").as_str(), "truecolor" | "24bit")
}

fn by_environment() -> Option<Protocol> {
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

/// Asks for the terminal's attributes; 4 among them is sixel.
fn has_sixel() -> bool {
    let answer = ask(b"\x1b[c").unwrap_or_default();
    let attributes = answer.strip_prefix("\x1b[?").and_then(|rest| rest.strip_suffix('c'));
    attributes.is_some_and(|attributes| attributes.split(';').any(|number| number == "4"))
}

/// Writes a question to the terminal and reads its answer, which nobody sees.
fn ask(question: &[u8]) -> Option<String> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    let before = tcgetattr(&terminal).ok()?;
    let mut quiet = before.clone();
    quiet.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    tcsetattr(&terminal, OptionalActions::Flush, &quiet).ok()?;
    let restore = Restore(terminal.try_clone().ok()?, before);
    terminal.write_all(question).ok()?;
    let answer = listen(&mut terminal);
    drop(restore);
    String::from_utf8(answer).ok()
}

/// Puts the terminal back as it was.
struct Restore(File, Termios);

impl Drop for Restore {
    fn drop(&mut self) {
        _ = tcsetattr(&self.0, OptionalActions::Flush, &self.1);
    }
}

fn listen(terminal: &mut File) -> Vec<u8> {
    let (began, mut answer, mut byte) = (Instant::now(), Vec::new(), [0]);
    while let Some(left) = PATIENCE.checked_sub(began.elapsed()) {
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
