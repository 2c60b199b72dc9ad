//! Hostile input and exhausted machines, and what SECURITY.md promises about them: data from strangers costs only its own
//! item, reaches no shell, leaves its folder nowhere and reveals no secret.

mod corpus;
mod crashes;
mod cuts;
mod differential;
mod exhausted;
mod fetch;
mod images;
mod paths;
mod promises;
mod secrets;
mod servers;
mod shells;
mod streams;
mod tables;
mod tarproc;
#[cfg(feature = "tarresize")]
pub mod tarresize;
mod tarvideo;

use crate::support::Done;

/// Fails on what no input may do: a panic, a death by signal, a message with debug text.
#[track_caller]
fn is_answer(what: &str, done: &Done) {
    let (status, said) = (done.status_code(), done.stderr_text());
    assert!((0..=3).contains(&status), "{what}: status {status}: {said}");
    assert!(!said.contains("panicked") && !said.contains("a bug"), "{what}: {said}");
}
