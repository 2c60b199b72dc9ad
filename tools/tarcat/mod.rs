//! Streams in, one stream out: concatenated, sliced, selected, renamed, rekeyed, shuffled, mixed.
//! Samples that no flag inspects pass through without being held in memory, and none changes unless a flag asks for it.

mod args;
mod edit;
mod key_filter;
mod order;
mod position;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use tarpipe::cli::{self, Outcome, Samples, SharedTally, Usage};
use tarpipe::messages;
use tarpipe::sample::Sample;
use tarpipe::sample::shard::ShardWriter;
use tarpipe::sample::stream::SampleStream;
use tarpipe::source;
use tarpipe::value::list;
use tarpipe::value::slice::Slice;

pub(crate) use args::Args;
use edit::drop_fields;
use key_filter::KeyFilter;
use order::{Mix, ShuffleBuffer};
use position::PositionFilter;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let lists = args.input.lists()?;
    let has_several = lists.iter().map(Vec::len).sum::<usize>() > 1;
    let filter = PositionFilter::new(&args, has_several);
    let keys = KeyFilter::load(&args, &lists)?;
    let sources = pick_sources(&args, lists, has_several)?;
    let mut out = args.output.create(&args.parallel)?;
    let tally = SharedTally::default();
    if args.needs_samples_in_memory() {
        edit_samples(args, sources, (filter, keys), &mut out, &tally)?;
    } else {
        copy_samples(&sources.concat(), args.input.ignore_eof, (filter, keys), &mut out, &tally)?;
    }
    out.finish()?;
    Ok(tally.take().into())
}

/// The sources to read, in reading order: one list per argument.
fn pick_sources(args: &Args, mut lists: Vec<Vec<String>>, has_several: bool) -> Result<Vec<Vec<String>>> {
    let weights = list::concat(&args.weights);
    if !weights.is_empty() && weights.len() != lists.len() {
        bail!(Usage(format!("--weights has {} numbers for {} arguments", weights.len(), lists.len())));
    }
    let slice = args.shard_slice.unwrap_or(Slice::ALL);
    let mut position = 0;
    for list in &mut lists {
        list.retain(|_| {
            position += 1;
            let at = position - 1;
            slice.has(at) && !args.shard.is_some_and(|part| has_several && !part.has(at))
        });
    }
    order::shuffle_sources(&mut lists, args.shuffle.map(|_| args.seed));
    cli::expect_bytes(&lists.concat());
    Ok(lists)
}

/// Copies samples straight from the sources to the output, member by member.
fn copy_samples(
    names: &[String],
    ignore_eof: bool,
    (mut filter, mut keys): (PositionFilter, KeyFilter),
    out: &mut ShardWriter,
    tally: &SharedTally,
) -> Result<()> {
    for (i, name) in names.iter().enumerate() {
        if filter.is_over() {
            break;
        }
        let mut stream = SampleStream::open(name, ignore_eof)?;
        names.get(i + 1).into_iter().for_each(|next| source::prefetch(next));
        while !filter.is_over() && stream.next()?.is_some() {
            if filter.is_in_part() && keys.takes_key(stream.key())? && filter.is_in_slice() {
                out.copy(&mut stream, |_| {})?;
                tally.add(|tally| tally.done());
            }
        }
        tally.merge(stream.tally());
    }
    Ok(())
}

/// Loads each sample into memory and applies the flags to it.
fn edit_samples(
    args: Args,
    sources: Vec<Vec<String>>,
    (mut filter, mut keys): (PositionFilter, KeyFilter),
    out: &mut ShardWriter,
    tally: &SharedTally,
) -> Result<()> {
    let (ignore_eof, max_sample, counts) = (args.input.ignore_eof, args.held.max_sample, tally.clone());
    let open = move |names| Samples::new(names, ignore_eof, max_sample).counted_in(&counts);
    let mut bad_left = args.max_bad;
    let mut shuffle = ShuffleBuffer::new(args.shuffle, args.seed);
    let mut index = 0;
    let mut write = |mut sample: Sample| -> Result<()> {
        if let Some(rekey) = &args.rekey {
            sample.rekey(rekey.key(&sample.key, index)?);
        }
        index += 1;
        out.write(&sample)?;
        tally.add(|tally| tally.done());
        Ok(())
    };
    let mut samples = Mix::new(sources, args.mix, list::concat(&args.weights), args.seed, open);
    while !filter.is_over() {
        let mut sample = match samples.next() {
            None => break,
            Some(Err(err)) if bad_left > 0 => {
                bad_left -= 1;
                messages::notice(&format!("{err:#}; continuing with the next source"));
                tally.add(|tally| tally.fail("damaged"));
                continue;
            }
            Some(sample) => sample?,
        };
        let is_listed = filter.is_in_part() && keys.takes(&sample)?;
        let is_selected = is_listed && args.select.as_ref().is_none_or(|select| select.takes(&sample, tally));
        if !is_selected || !filter.is_in_slice() {
            continue;
        }
        if !keep_fields(&args, &mut sample) {
            let example = || format!("{}: {}: no field is left of it", sample.source, sample.key);
            tally.add(|tally| tally.fail_as("no_field", example));
            continue;
        }
        if let Some(sample) = shuffle.swap(sample) {
            write(sample)?;
        }
    }
    shuffle.drain().try_for_each(write)
}

/// Removes the fields that --drop names and -f does not, and returns whether any is left.
fn keep_fields(args: &Args, sample: &mut Sample) -> bool {
    drop_fields(sample, args.drop.as_deref().unwrap_or_default());
    if let Some(fields) = &args.fields {
        fields.pick(sample);
    }
    !sample.members.is_empty()
}
