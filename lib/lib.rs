//! The model and the plumbing of the tarpipe tools. No policy of any one tool lives here.
//!
//! The vocabulary, used alike in code, help, manual and messages:
//!
//! - a **stream** is a tar archive, plain or compressed;
//! - a **member** is a regular file in it; its **key** is the path up to the first dot of
//!   the base name, its **field** is what follows that dot (WebDataset's rule);
//! - a **sample** is a run of adjacent members with one key;
//! - a **shard** is one archive of a dataset;
//! - a **source** is a name that can be read, a **sink** one that can be written;
//! - a **fault** is something wrong in the data, known by a stable reason **code**;
//! - what is **left out** of the output is either *dropped* (it was never part of a sample)
//!   or *failed* (it was, and could not be processed).
//!
//! Tools depend on this crate, never on each other.

pub mod archive;
pub mod child;
pub mod cli;
pub mod compression;
pub mod digest;
pub mod duration;
pub mod expression;
pub mod failure;
pub mod fields;
pub mod guard;
pub mod index;
#[cfg(feature = "tables")]
pub mod ledger;
pub mod man;
pub mod memory;
pub mod messages;
pub mod name;
pub mod names;
pub mod owner;
pub mod passed;
pub mod pool;
pub mod process;
pub mod procfs;
pub mod progress;
pub mod random;
pub mod rank;
pub mod report;
pub mod sample;
pub mod scratch;
pub mod secret;
pub mod select;
pub mod shard;
pub mod signals;
pub mod sink;
pub mod size;
pub mod slice;
pub mod sort;
pub mod source;
#[cfg(feature = "stores")]
pub mod store;
mod strays;
pub mod stream;
#[cfg(feature = "tables")]
pub mod table;
pub mod template;
