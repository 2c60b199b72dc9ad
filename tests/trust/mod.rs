//! What SECURITY.md promises: data from strangers costs its own item, reaches no shell, leaves no folder and tells no
//! secret.

mod corpus;
mod crashes;
mod differential;
mod images;
mod paths;
mod promises;
mod secrets;
mod servers;
mod shells;
mod tables;

use crate::support::Done;

/// Fails on what no input may do: a panic, a death by signal, a message with debug text.
#[track_caller]
fn is_answer(what: &str, done: &Done) {
    let (status, said) = (done.status_code(), done.stderr_text());
    assert!((0..=3).contains(&status), "{what}: status {status}: {said}");
    assert!(!said.contains("panicked") && !said.contains("a bug"), "{what}: {said}");
}
