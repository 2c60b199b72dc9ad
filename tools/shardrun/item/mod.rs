//! Runs one item: its script under bash, with retries, and its output, which is committed only on success.

pub mod attempt;
mod counting_copy;
pub mod runner;
pub mod stderr_tail;
