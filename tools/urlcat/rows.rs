//! The pipeline that every row passes: sliced, filtered, sampled, deduped, numbered, written.

use std::io::Write;

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::{Outcome, Usage};
use tarpipe::messages;
use tarpipe::random::Random;
use tarpipe::sink::Sink;
use tarpipe::table::{Flow, Projection, Table, TableRow, Tables, Visitor};
use tarpipe::tally::Tally;
use tarpipe::value::expression::{Expression, from_json};
use tarpipe::value::list;
use tarpipe::value::slice::Slice;
use tarpipe::value::template::Template;

use crate::urlcat::Args;
use crate::urlcat::column_choice::ColumnChoice;
use crate::urlcat::json_line::{ColumnNames, NO_COLUMN, RowNumber, write_row};
use crate::urlcat::partition::RowPartition;
use crate::urlcat::seen_urls::SeenUrls;

/// Lines are collected into blocks of this size before they are written.
const BLOCK: usize = 256 << 10;

/// Writes lines in large blocks.
pub struct RowWriter {
    sink: Sink,
    buf: Vec<u8>,
}

impl RowWriter {
    pub fn new(sink: Sink) -> Self {
        RowWriter { sink, buf: Vec::with_capacity(BLOCK + 4096) }
    }

    fn flush(&mut self) -> Result<()> {
        self.sink.write_all(&self.buf)?;
        self.buf.clear();
        Ok(())
    }
}

/// Number of rows that pass every step before --shard.
pub fn count(args: &Args, columns: &ColumnChoice, tables: &Tables) -> Result<u64> {
    let takes_all =
        args.filter.is_none() && args.slice.is_none() && args.sample.is_none() && !args.unique && !args.skip_bad;
    if let Some(rows) = if takes_all { tables.known_rows()? } else { None } {
        return Ok(rows);
    }
    let mut pipeline = RowPipeline::new(args, columns, RowPartition::All, None)?;
    pipeline.read_all(tables)?;
    Ok(pipeline.index)
}

/// Applies the flags to one row after another.
pub struct RowPipeline<'a> {
    names: ColumnNames<'a>,
    columns: Projection,
    filter: Option<&'a Expression>,
    slice: Slice,
    share: Option<(f64, Random)>,
    seen: Option<SeenUrls>,
    partition: RowPartition,
    skip_bad: bool,
    rows_per_shard: u64,
    first_shard: u64,
    template: Option<Template>,
    /// None if rows are only counted.
    out: Option<RowWriter>,
    table: String,
    /// Rows read so far.
    position: u64,
    /// Rows so far that passed every step before --shard: the number of the next one.
    index: u64,
    is_output_broken: bool,
    /// Columns of --keep that no written row has had so far.
    unseen: Option<Vec<&'a str>>,
    /// Columns of --where that no row has had so far.
    unseen_by_filter: Option<Vec<&'a str>>,
    choice: &'a ColumnChoice,
    tally: Tally,
}

impl<'a> RowPipeline<'a> {
    pub fn new(
        args: &'a Args,
        choice: &'a ColumnChoice,
        partition: RowPartition,
        out: Option<RowWriter>,
    ) -> Result<Self> {
        let template = args.key.as_deref().map(|key| Template::parse(key, &["index", "shard", "row"]));
        let template = template.transpose().map_err(|err| anyhow!(Usage(format!("--key: {err:#}"))))?;
        let names = ColumnNames {
            url: &choice.url,
            caption: &choice.caption,
            key: args.key_col.as_deref().unwrap_or("key"),
            must_have_caption: args.caption_col.is_some(),
            must_have_key: args.key_col.is_some(),
            keep: args.keep.as_deref().map(parse_keep).transpose()?,
        };
        Ok(RowPipeline {
            columns: names.columns(args.filter.as_deref(), out.is_none()),
            names,
            filter: args.filter.as_deref(),
            slice: args.slice.unwrap_or(Slice::ALL),
            share: args.sample.map(|share| (share, Random::new(args.seed))),
            seen: args.unique.then(SeenUrls::default),
            partition,
            skip_bad: args.skip_bad,
            rows_per_shard: args.rows_per_shard(),
            first_shard: args.first_shard,
            template,
            out,
            table: String::new(),
            position: 0,
            index: 0,
            is_output_broken: false,
            unseen: None,
            unseen_by_filter: None,
            choice,
            tally: Tally::of("row"),
        })
    }

    /// Reads all tables. A table that cannot be read ends the run, or is skipped with --skip-bad.
    pub fn read_all(&mut self, tables: &Tables) -> Result<()> {
        for (name, table) in tables.each() {
            self.begin(name);
            match table.and_then(|table| self.read(table)) {
                Ok(Flow::Continue(())) => {}
                Ok(Flow::Break(())) => break,
                Err(err) => self.bad_table(err)?,
            }
        }
        Ok(())
    }

    /// Names the table whose rows come next.
    fn begin(&mut self, table: String) {
        self.table = table;
    }

    fn read(&mut self, table: Table) -> Result<Flow> {
        let columns = self.columns.clone();
        table.visit(&columns, self)
    }

    /// The table, or the rest of it, cannot be read.
    fn bad_table(&mut self, err: anyhow::Error) -> Result<()> {
        if self.is_output_broken {
            return Err(err);
        }
        if !self.skip_bad {
            let is_named = format!("{err:#}").starts_with(&self.table);
            return Err(if is_named { err } else { err.context(self.table.clone()) });
        }
        self.tally.leave_out("bad_table", &self.table, &format_args!("{err:#}"));
        Ok(())
    }

    /// Writes the remaining lines and closes the output.
    pub fn finish(mut self) -> Result<Outcome> {
        if let Some(name) = self.unseen_by_filter.iter().flatten().next() {
            bail!("--where: no row has a column '{name}'{}", self.choice.hint(name));
        }
        if let Some(mut out) = self.out.take() {
            out.flush()?;
            out.sink.finish()?;
        }
        if let Some(unseen) = self.unseen.filter(|unseen| !unseen.is_empty()) {
            let hint = self.choice.hint(unseen[0]);
            messages::notice(&format!("--keep: no row has a column '{}'{hint}", unseen.join("' or '")));
        }
        Ok(self.tally.into())
    }

    /// Whether the filter holds for the row; None if the row lacks a value that the filter needs.
    fn passes(&self, filter: &Expression, row: &TableRow<'_>) -> Result<Option<bool>> {
        let cells = row.cells.iter().filter(|(name, _)| filter.variables().iter().any(|wanted| wanted == name));
        let known: Vec<_> =
            cells.filter(|(_, cell)| !cell.is_null()).map(|(name, cell)| (*name, from_json(cell.to_value()))).collect();
        let is_complete = known.len() == filter.variables().len();
        match filter.holds(known) {
            Ok(holds) => Ok(Some(holds)),
            Err(_) if !is_complete => Ok(None),
            Err(err) => Err(err),
        }
    }

    fn write(&mut self, row: &TableRow<'_>) -> Result<(), String> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let unseen = self.unseen.get_or_insert_with(|| self.names.keep.iter().flatten().map(|(_, old)| *old).collect());
        unseen.retain(|name| row.get(name).is_none());
        let start = out.buf.len();
        let number =
            RowNumber { index: self.index, rows_per_shard: self.rows_per_shard, first_shard: self.first_shard };
        let result = write_row(&mut out.buf, &self.names, row, self.template.as_ref(), number);
        if result.is_err() {
            out.buf.truncate(start);
        }
        result
    }

    fn take(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        if let Some(filter) = self.filter {
            let all = || filter.variables().iter().map(String::as_str).collect();
            self.unseen_by_filter.get_or_insert_with(all).retain(|name| row.get(name).is_none());
            match self.passes(filter, row) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return Ok(Flow::Continue(())),
                Ok(None) => {
                    self.tally.drop("no_value");
                    return Ok(Flow::Continue(()));
                }
                Err(err) => return self.bad_row(row.number, &format!("--where: {err:#}")),
            }
        }
        if let Some((share, random)) = &mut self.share
            && random.fraction() >= *share
        {
            return Ok(Flow::Continue(()));
        }
        if self.seen.is_some() && !self.is_new(row) {
            self.tally.drop("duplicate");
            return Ok(Flow::Continue(()));
        }
        if self.partition.has(self.index) {
            if let Err(why) = self.write(row) {
                let hint =
                    if why.starts_with(NO_COLUMN) { "; --url-col and --caption-col name other columns" } else { "" };
                return self.bad_row(row.number, &format!("{why}{hint}"));
            }
            self.tally.done();
        }
        self.index += 1;
        if let Some(out) = self.out.as_mut().filter(|out| out.buf.len() >= BLOCK) {
            self.is_output_broken = true;
            out.flush()?;
            self.is_output_broken = false;
        }
        Ok(if self.partition.is_over(self.index) { Flow::Break(()) } else { Flow::Continue(()) })
    }

    fn is_new(&mut self, row: &TableRow<'_>) -> bool {
        let url = row.get(self.names.url).and_then(|cell| cell.text());
        match (&mut self.seen, url) {
            (Some(seen), Some(url)) => seen.is_new(&url),
            _ => true,
        }
    }
}

impl Visitor for RowPipeline<'_> {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        let position = self.position;
        self.position += 1;
        if self.slice.is_over(position) {
            return Ok(Flow::Break(()));
        }
        if self.slice.has(position) { self.take(row) } else { Ok(Flow::Continue(())) }
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        if !self.skip_bad {
            bail!(BadRow(format!("{}: row {number}: {why}", self.table)));
        }
        self.tally.leave_out("bad_row", &format!("{}: row {number}", self.table), &why);
        Ok(Flow::Continue(()))
    }
}

/// Parses --keep into pairs of new and old names.
pub fn parse_keep(text: &str) -> Result<Vec<(&str, &str)>> {
    let pairs: Vec<(&str, &str)> = list::items(text).map(|name| name.split_once('=').unwrap_or((name, name))).collect();
    for (at, (new, old)) in pairs.iter().enumerate() {
        if new.is_empty() || old.is_empty() || pairs[..at].iter().any(|(other, _)| other == new) {
            bail!(Usage(format!("--keep: '{new}={old}': a name is empty or repeated")));
        }
    }
    Ok(pairs)
}

/// An invalid row, which ends the run without --skip-bad.
#[derive(Debug)]
pub struct BadRow(String);

impl std::fmt::Display for BadRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRow {}
