//! Sorts whole samples, spilling them to disk if they do not fit into memory: for pipes, URLs and compressed files,
//! which cannot be read at an offset.

use anyhow::Result;
use tarpipe::cli::Samples;
use tarpipe::messages;
use tarpipe::messages::progress;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sort::Packer;
use tarpipe::tally::Tally;

use crate::tarsort::Args;
use crate::tarsort::duplicates::DuplicatePolicy;

/// Writes the samples of all sources in their new order.
pub fn sort(args: &Args, names: Vec<String>, out: &mut ShardWriter) -> Result<Tally> {
    let mut order = args.order();
    let mut sorter = args.sorter();
    let mut duplicates = DuplicatePolicy::new(args, &names);
    let mut packer = Packer::new(args.group);
    let mut samples = Samples::new(names, args.input.ignore_eof, args.held.max_sample);
    let (counts, mut key) = (samples.tally(), Vec::new());
    while let Some(sample) = samples.next().transpose()? {
        order.key(&sample.key, |field| sample.get(field).map(|member| member.data.as_slice()), &mut key);
        sorter.push(&key, &packer.pack(&sample, &key)?)?;
        progress::add_sample();
    }
    order.notice().iter().for_each(|notice| messages::notice(notice));
    drop(samples);
    let bytes = sorter.bytes();
    let mut sorted = sorter.finish()?;
    progress::begin_phase("writing", Some(bytes));
    while let Some(record) = sorted.next()? {
        progress::add_bytes((record.key.len() + record.body.len()) as u64);
        let sample = packer.unpack(&record)?;
        if duplicates.admit(&order, record.key, sample.key, sample.fields(), out)? {
            sample.write(out.writer())?;
        }
    }
    let mut tally = counts.take();
    tally.merge(&duplicates.tally);
    Ok(tally)
}
