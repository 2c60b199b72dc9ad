//! The data model and the shared machinery of the tarpipe tools. Policy of a
//! single tool does not belong here.
//!
//! # Vocabulary
//!
//! It is the same in code, help, manual and messages:
//!
//! - a **stream** is a tar archive, plain or compressed;
//! - a **member** is a regular file in it; its **key** is the path up to the
//!   first dot of the base name, its **field** is what follows that dot
//!   (WebDataset's rule);
//! - a **sample** is a run of adjacent members that share a key;
//! - a **shard** is one archive of a dataset;
//! - a **source** is a name that can be read, a **sink** one that can be
//!   written;
//! - a **fault** is an error in the data, identified by a stable reason
//!   **code**;
//! - an item that is **left out** of the output was either *dropped* (it never
//!   belonged to a sample) or *failed* (it did, and could not be processed).
//!
//! # A tool in a page
//!
//! A filter reads samples, works on them in parallel, and writes a shard. This
//! one removes captions; `cli::main` adds the shared flags, messages, signal
//! handling and the exit status:
//!
//! ```
//! use clap::Parser;
//! use tarpipe::cli::{InputFlags, Outcome, OutputFlags, ParallelFlags, SampleLimit, Verbosity};
//! use tarpipe::run::pool::{self, Cost, PoolLimits};
//! use tarpipe::sample::Sample;
//!
//! /// Remove captions
//! #[derive(Parser)]
//! #[command(name = "tarmute")]
//! struct Args {
//!     #[command(flatten)]
//!     input: InputFlags,
//!     #[command(flatten)]
//!     output: OutputFlags,
//!     #[command(flatten)]
//!     limit: SampleLimit,
//!     #[command(flatten)]
//!     parallel: ParallelFlags,
//!     #[command(flatten)]
//!     verbosity: Verbosity,
//! }
//!
//! fn run(args: Args) -> anyhow::Result<Outcome> {
//!     let samples = args.input.samples(&args.limit)?;
//!     let tally = samples.tally(); // what the reader leaves out
//!     let mut shard = args.output.create(&args.parallel)?;
//!     let mute = |mut sample: Sample| {
//!         sample.members.retain(|member| member.field != "txt");
//!         Ok(sample)
//!     };
//!     pool::run(
//!         PoolLimits::for_workers(args.parallel.threads()),
//!         samples,
//!         Cost::of_jobs(Sample::bytes),
//!         move |_worker| mute,
//!         |sample| {
//!             shard.write(&sample)?;
//!             tally.add(|tally| tally.done());
//!             Ok(())
//!         },
//!     )?;
//!     shard.finish()?; // only now does the output exist
//!     Ok(tally.take().into())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     let args = vec!["tarmute".into(), "pipe:tar c --files-from /dev/null".into(), "-o".into(), "/dev/null".into()];
//!     tarpipe::cli::main(args, run)
//! }
//! ```
//!
//! # Layers
//!
//! The modules below are listed from bottom to top. A module uses only modules
//! listed above it, and tools use this crate but never each other;
//! `tests/layers.rs` enforces both.
//!
//! # Conventions
//!
//! - Functions that take a `name` accept everything that a user can type as a
//!   source or a sink: paths, `-`, `pipe:COMMAND` and URLs (see [`location`]).
//! - Errors are [`anyhow::Error`] with the subject as context (`shard-3.tar:
//!   byte 512: …`). Only errors that callers tell apart have types:
//!   [`archive::Fault`], [`sink::ReaderLeft`], [`usage::Usage`] and
//!   [`run::pool::WorkerPanicked`].
//! - Bad data never panics; a panic is a bug. Decoders that panic on hostile
//!   data are run through [`run::panics`].
//! - Nothing that can fail is left to `Drop`: a writer has a `finish` method,
//!   and dropping it unfinished means that its output is discarded.
//! - Everything blocks. Only object stores are asynchronous inside, and hide
//!   it.
//! - Global state is limited to what belongs to the process: the tool's name
//!   and verbosity, progress counters, signal handling and the clients of
//!   object stores.

// Types of flag values: sizes, durations, lists, slices, partitions, templates, expressions.
pub mod value;

// What a file is, by its first bytes.
pub mod media_type;

// SHA-256 and fingerprints.
pub mod digest;

// Random numbers from a seed, the same on every machine.
pub mod random;

// Messages on stderr, progress, masked secrets.
pub mod messages;

// Self-contained HTML pages with charts.
pub mod html;

// Counts by reason code.
pub mod tally;

// Usage errors, exit status 2.
pub mod usage;

// Signals, child processes, worker pools, memory budgets, scratch directories.
pub mod run;

// Parses the names of sources and sinks.
pub mod location;

// The tar format: headers, reader, writer.
pub mod archive;

// gzip, zstd, xz, bzip2 and lz4: detected on input, chosen on output.
pub mod compression;

// The HTTP client of sources, sinks and stores.
pub mod http;

// Object stores: s3://, gs:// and az://.
#[cfg(feature = "stores")]
pub mod store;

// Opens names for reading.
pub mod source;

// Creates names for writing, atomically.
pub mod sink;

// Members, keys, fields, samples, streams, shards.
pub mod sample;

// External sort.
pub mod sort;

// Rows of txt, csv, json, parquet and arrow tables.
#[cfg(feature = "tables")]
pub mod table;

// Reports of runs: one row per item.
#[cfg(feature = "tables")]
pub mod report;

// Shared flags, `main`, exit status, manual pages.
pub mod cli;
