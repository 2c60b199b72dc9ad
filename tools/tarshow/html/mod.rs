//! A self-contained HTML page about a dataset: counts, fields, charts, reports, a gallery. The same samples and flags
//! give the same bytes.

mod distributions;
mod gallery;
mod page;
mod report_section;
mod run_report;
mod sample_facts;
mod summary;

use std::io::Write;

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::messages::secret::mask;
use tarpipe::sink::{Sink, SinkOptions};
use tarpipe::tally::Tally;

use crate::tarshow::args::Args;
use crate::tarshow::pictures::card::CardMaker;
use crate::tarshow::reservoir::Reservoir;
use crate::tarshow::samples::{self, SelectedSamples};
use page::Page;
use run_report::RunReport;
use summary::DatasetSummary;

const DEFAULT_NUMBER: usize = 100;
/// A page with more pictures is slow to open.
const MAX_NUMBER: usize = 5_000;

/// Reads all samples and writes the page.
pub fn write(args: &Args, file: &str) -> Result<Tally> {
    let number = args.number.unwrap_or(DEFAULT_NUMBER);
    if number > MAX_NUMBER {
        bail!(Usage(format!("-n {number}: out of range; a page shows at most {MAX_NUMBER} samples")));
    }
    let mut sink = Sink::create(file, SinkOptions::default())?;
    let reports = args.report.iter().map(|name| RunReport::read(name)).collect::<Result<Vec<RunReport>>>()?;
    let selected = SelectedSamples::open(args)?;
    let sources: Vec<String> = selected.sources().iter().map(|name| mask(name).into_owned()).collect();
    let maker = CardMaker::new(args, args.side, args.side);
    let mut summary = DatasetSummary::new(number);
    let reservoir = Reservoir::new(number, args.seed);
    let work = move |numbered: &samples::NumberedSample| Ok(sample_facts::gather(numbered, &maker));
    let tally = samples::prepare_with_choice(args, selected, reservoir, work, |facts| {
        summary.add(facts);
        Ok(())
    })?;
    let page = Page { sources: &sources, summary: &summary, reports: &reports, left_out: &tally };
    sink.write_all(page.to_string().as_bytes())?;
    sink.finish()?;
    Ok(tally)
}
