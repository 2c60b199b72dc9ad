//! A page about a dataset that holds all it shows: counts, fields, charts, reports, a gallery.
//! The same samples and flags give the same bytes.

mod chart;
mod distributions;
mod facts;
mod gallery;
mod histogram;
mod markup;
mod page;
mod reports;
mod runs;
mod summary;

use std::io::Write;

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::messages::secret::mask;
use tarpipe::sink::{Options, Sink};
use tarpipe::tally::Tally;

use crate::args::Args;
use crate::card::Maker;
use crate::flow::{self, Taken};
use crate::reservoir::Reservoir;
use page::Page;
use reports::Report;
use summary::Summary;

const DEFAULT_NUMBER: usize = 100;
/// More pictures make a page that browsers are slow to open.
const MAX_NUMBER: usize = 5_000;

/// Reads all samples and writes the page.
pub fn write(args: &Args, file: &str) -> Result<Tally> {
    let number = args.number.unwrap_or(DEFAULT_NUMBER);
    if number > MAX_NUMBER {
        bail!(Usage(format!("-n {number}: a page shows at most {MAX_NUMBER} samples")));
    }
    let mut sink = Sink::create(file, Options::default())?;
    let reports = args.report.iter().map(|name| Report::read(name)).collect::<Result<Vec<Report>>>()?;
    let taken = Taken::open(args)?;
    let sources: Vec<String> = taken.sources().iter().map(|name| mask(name).into_owned()).collect();
    let maker = Maker::new(args, args.side, args.side);
    let mut summary = Summary::new(number);
    let reservoir = Reservoir::new(number, args.seed);
    let work = move |job: &flow::Job| Ok(facts::gather(job, &maker));
    let tally = flow::run(args, taken, reservoir, work, |facts| {
        summary.add(facts);
        Ok(())
    })?;
    let page = Page { sources: &sources, summary: &summary, reports: &reports, left_out: &tally };
    sink.write_all(page.to_string().as_bytes())?;
    sink.finish()?;
    Ok(tally)
}
