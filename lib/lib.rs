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

// What flags are set to: sizes, durations, slices, partitions, templates, expressions.
pub mod value;

// SHA-256 and fingerprints.
pub mod digest;

// Random numbers from a seed, the same on every machine.
pub mod random;

// Messages on stderr, progress, masked secrets.
pub mod messages;

// Counts by reason code.
pub mod tally;

// Mistakes in flags.
pub mod usage;

// Signals, child processes, worker pools, memory budgets, scratch directories.
pub mod run;

// The names of sources and sinks, taken apart.
pub mod location;

// The tar format: headers, reader, writer.
pub mod archive;

// The formats gzip, zstd, xz, bzip2, lz4: detected on input, chosen on output.
pub mod compression;

// The HTTP client of sources, sinks and stores.
pub mod http;

// Object stores: s3://, gs:// and az://.
#[cfg(feature = "stores")]
pub mod store;

// Opens a name for reading.
pub mod source;

// Creates a name for writing, whole or not at all.
pub mod sink;

// Members, keys, fields, samples, streams, shards.
pub mod sample;

// External sort.
pub mod sort;

// Rows in text, csv, json, parquet, arrow.
#[cfg(feature = "tables")]
pub mod table;

// Reports: one row per item.
#[cfg(feature = "tables")]
pub mod report;

// Flags that tools share, `main`, exit status, manual.
pub mod cli;
