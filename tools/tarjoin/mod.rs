//! Samples and tables or streams in, samples out in the same order: with the values of their rows, or only those that have
//! a row, or that have none.

mod args;
mod into;
mod match_rows;
mod other_side;
mod put;

use std::borrow::Cow;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tarpipe::cli::{self, Outcome, SharedTally, Usage};
use tarpipe::messages;
use tarpipe::sample::Sample;

pub(crate) use args::Args;
use args::Keep;
use match_rows::{MatchCounts, RowMatcher};
use other_side::OtherSide;

/// Runs the tool with these arguments, its name first.
pub fn main(args: Vec<OsString>) -> ExitCode {
    cli::main(args, run)
}

fn run(args: Args) -> Result<Outcome> {
    let names = args.input.names()?;
    if args.with.iter().chain(&names).filter(|name| *name == "-").count() > 1 {
        bail!(Usage("stdin can be read only once: name a file for --with or SOURCE".into()));
    }
    let tally = SharedTally::default();
    let mut out = args.output.create(&args.parallel)?;
    let mut joins = Vec::new();
    for spec in &args.with {
        joins.push(Join::new(&args, spec, &tally)?);
    }
    cli::expect_bytes(&names);
    let samples = cli::Samples::new(names, args.input.ignore_eof, args.held.max_sample).counted_in(&tally);
    for sample in samples {
        if let Some(sample) = join(&args, &mut joins, sample?, &tally)? {
            out.write(&sample)?;
            tally.add(|tally| tally.done());
        }
    }
    for join in joins {
        join.finish(args.keep)?;
    }
    out.finish()?;
    Ok(tally.take().into())
}

/// The sample with the values of its rows; None if it is left out, which is counted.
fn join(args: &Args, joins: &mut [Join], mut sample: Sample, tally: &SharedTally) -> Result<Option<Sample>> {
    let key = args.on.of(&sample).map(Cow::into_owned);
    let mut found = 0;
    let mut refusal = None;
    let mut row = Vec::new();
    for join in joins.iter_mut() {
        if !join.find(key.as_deref(), &mut row)? {
            continue;
        }
        found += 1;
        if args.keep != Keep::Anti && refusal.is_none() {
            let values = into::values(&row).context("the temporary file is damaged")?;
            refusal = put::put_values(&mut sample, &values, args.on_conflict).err();
        }
    }
    let unwanted = match args.keep {
        Keep::Inner if found < joins.len() => Some("no_row"),
        Keep::Anti if found > 0 => Some("has_row"),
        _ => None,
    };
    if let Some(code) = unwanted {
        tally.add(|tally| tally.drop(code));
        return Ok(None);
    }
    if let Some((code, why)) = refusal {
        let item = format!("{}: {}", sample.source, sample.key);
        tally.add(|tally| tally.leave_out(code, &item, &why));
        return Ok(None);
    }
    Ok(Some(sample))
}

/// One --with.
struct Join {
    name: String,
    rows: RowMatcher,
    samples: u64,
    without_row: u64,
}

impl Join {
    fn new(args: &Args, spec: &str, tally: &SharedTally) -> Result<Self> {
        let side = OtherSide::new(args, spec, tally);
        let name = side.name();
        let rows = RowMatcher::new(side, args.sort_options(), args.sorted)?;
        Ok(Join { name, rows, samples: 0, without_row: 0 })
    }

    /// Whether the sample with this key has a row, which is then in `row`.
    fn find(&mut self, key: Option<&str>, row: &mut Vec<u8>) -> Result<bool> {
        self.samples += 1;
        let found = match key {
            Some(key) => self.rows.find(key)?,
            None => None,
        };
        self.without_row += u64::from(found.is_none());
        row.clear();
        row.extend_from_slice(found.unwrap_or_default());
        Ok(found.is_some())
    }

    /// Reports how the two sides matched. Samples that --keep drops for it are in the summary already.
    fn finish(self, keep: Keep) -> Result<()> {
        let Join { name, rows, samples, without_row } = self;
        let MatchCounts { rows, unused, repeated, keyless } = rows.finish()?;
        let without_row = if keep == Keep::Left { without_row } else { 0 };
        for (count, total, what) in [
            (without_row, samples, "samples without a row"),
            (unused, rows, "rows without a sample"),
            (repeated, rows, "rows with a repeated key (the first row counts)"),
            (keyless, rows, "rows without a key"),
        ] {
            if count > 0 {
                messages::notice(&format!("{name}: {what}: {count} of {total}"));
            }
        }
        Ok(())
    }
}
