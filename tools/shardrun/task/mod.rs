//! The worker's side of an engine: a bundle of tasks goes in, results come out.

pub mod bundle;
mod requeue;
pub mod results;
pub mod worker;
