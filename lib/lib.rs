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
//! Tools depend on this crate, never on each other. The modules below are listed from bottom to top: each uses only those
//! above it in this list, and `tests/layers.rs` holds that.

pub mod archive; // tar: headers, reader, writer
pub mod cli;
pub mod compression; // gzip, zstd, xz, bzip2, lz4: detected on input, chosen on output
pub mod digest; // SHA-256 and fingerprints
pub mod http; // the HTTP client of sources, sinks and stores
pub mod location; // the names of sources and sinks, taken apart
pub mod messages; // stderr: messages, progress, masked secrets
pub mod random; // seeded, the same on every machine
#[cfg(feature = "tables")]
pub mod report; // one row per item: what became of it
pub mod run; // signals, child processes, worker pools, memory budgets, scratch directories
pub mod sample; // members, keys, fields, samples, streams, shards
pub mod sink; // creates a name for writing, whole or not at all
pub mod sort; // external sort
pub mod source; // opens a name for reading
#[cfg(feature = "stores")]
pub mod store; // s3://, gs://, az://
#[cfg(feature = "tables")]
pub mod table; // rows in text, csv, json, parquet, arrow
pub mod tally; // counts by reason code
pub mod usage; // mistakes in flags
pub mod value; // what flags are set to: sizes, durations, slices, partitions, templates, expressions // flags that tools share, `main`, exit status, manual
