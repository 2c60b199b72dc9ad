//! Reads one --with from start to end: the rows of tables, or the samples of streams, each as the value that is joined on
//! and the bytes that it contributes.

use std::io::{BufReader, Cursor, Read};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tarpipe::archive::{self, ArchiveReader, BLOCK};
use tarpipe::cli::{SharedTally, Usage};
use tarpipe::location;
use tarpipe::sample::Sample;
use tarpipe::sample::stream::SampleStream;
use tarpipe::source::{self, expand};
use tarpipe::table::{Flow, Projection, Table, TableFormat, TableRow, Tables, Visitor};

use crate::tarjoin::Args;
use crate::tarjoin::into::IntoPlan;

/// One --with, not read yet.
#[derive(Clone)]
pub struct OtherSide {
    /// As the user wrote it.
    spec: String,
    column: String,
    keep_headers: bool,
    plan: IntoPlan,
    ignore_eof: bool,
    max_sample: u64,
    tally: SharedTally,
}

/// A row of the other side.
pub struct JoinRow<'a> {
    /// What it is joined on; None if it has no value there.
    pub key: Option<&'a str>,
    /// What it contributes, for [`crate::tarjoin::into::values`].
    pub body: &'a [u8],
}

/// Receives the rows, in order.
type EachRow<'a> = dyn FnMut(JoinRow<'_>) -> Result<Flow> + 'a;

impl OtherSide {
    /// The --with of this name. What is left out of streams is counted in `tally`.
    pub fn new(args: &Args, spec: &str, tally: &SharedTally) -> Self {
        OtherSide {
            spec: spec.to_owned(),
            column: args.on.column.clone(),
            keep_headers: args.on.is_key(),
            plan: IntoPlan::new(args.into.clone().map(|list| list.into_vec())),
            ignore_eof: args.input.ignore_eof,
            max_sample: args.held.max_sample,
            tally: tally.clone(),
        }
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        location::display(&self.spec)
    }

    /// Calls `each` with all rows until it wants no more.
    pub fn read(&self, each: &mut EachRow<'_>) -> Result<()> {
        let path = location::path_of(&self.spec);
        let is_local = location::is_path(&self.spec);
        let is_pattern = is_local && path.contains(['*', '?']) && !Path::new(path).exists();
        if is_pattern || is_local && Path::new(path).is_dir() {
            for (name, table) in Tables::find(std::slice::from_ref(&self.spec), &[], None)?.each() {
                if self.read_table(&name, table?, each)?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        for name in expand::expand(&self.spec)? {
            if self.read_name(&name, each)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Names without the suffix of a table are streams if they begin with the header of a member.
    fn read_name(&self, name: &str, each: &mut EachRow<'_>) -> Result<Flow> {
        let shown = location::display(name);
        if TableFormat::from_suffix(name).is_some() && !name.starts_with("pipe:") {
            return self.read_table(&shown, Table::open(name, None)?, each);
        }
        let mut rest = source::open(name).with_context(|| shown.clone())?;
        let mut head = Vec::new();
        rest.by_ref().take(64 << 10).read_to_end(&mut head).with_context(|| shown.clone())?;
        if is_archive(&head) {
            let input: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(rest));
            return self.read_stream(SampleStream::new(name, ArchiveReader::new(input, self.ignore_eof)), each);
        }
        let format = TableFormat::sniff(name, &head);
        let table = Table::from_stream(Box::new(BufReader::new(Cursor::new(head).chain(rest))), format);
        self.read_table(&shown, table.with_context(|| shown.clone())?, each)
    }

    fn read_table(&self, name: &str, table: Table, each: &mut EachRow<'_>) -> Result<Flow> {
        let mut columns = self.plan.columns();
        columns.iter_mut().for_each(|names| names.push(self.column.clone()));
        let wanted: Vec<String> = columns.clone().unwrap_or_else(|| vec![self.column.clone()]);
        let projection = columns.map_or(Projection::All, Projection::Named);
        let seen = vec![false; wanted.len()];
        let mut rows = RowVisitor { side: self, each, body: Vec::new(), wanted, seen, rows: 0 };
        let flow = table.visit(&projection, &mut rows).with_context(|| name.to_owned())?;
        let missing = rows.wanted.iter().zip(&rows.seen).find(|(_, seen)| !**seen);
        if let Some((column, _)) = missing.filter(|_| rows.rows > 0 && flow.is_continue()) {
            bail!("{name}: no column '{column}' (urlcat --columns shows the columns)");
        }
        Ok(flow)
    }

    fn read_stream(&self, mut stream: SampleStream, each: &mut EachRow<'_>) -> Result<Flow> {
        if self.column != "key" {
            bail!(Usage(format!("{} is a stream: samples are joined by key (use --on VALUE=key)", self.name())));
        }
        if let Some(item) = self.plan.unfit_for_streams() {
            bail!(Usage(format!("--into {item}: {} is a stream, which has fields and no columns", self.name())));
        }
        let mut body = Vec::new();
        let mut flow = ControlFlow::Continue(());
        while let Some(head) = stream.next()? {
            let Some(Sample { key, members, .. }) = stream.load(head, self.max_sample)? else { continue };
            body.clear();
            members.iter().for_each(|member| self.plan.put_member(member, self.keep_headers, &mut body));
            flow = each(JoinRow { key: Some(&key), body: &body })?;
            if flow.is_break() {
                break;
            }
        }
        self.tally.merge(stream.tally());
        Ok(flow)
    }
}

/// Whether a source begins as an archive: with a header, or with the zeros of an empty one.
fn is_archive(head: &[u8]) -> bool {
    let block: Option<&[u8; BLOCK]> = head.first_chunk();
    block.is_some_and(|block| archive::is_header(block) || block.iter().all(|&byte| byte == 0))
}

/// Turns the rows of a table into those of the join.
struct RowVisitor<'a, 'b> {
    side: &'a OtherSide,
    each: &'a mut EachRow<'b>,
    body: Vec<u8>,
    /// The columns that must exist, and whether a row had them.
    wanted: Vec<String>,
    seen: Vec<bool>,
    rows: u64,
}

impl Visitor for RowVisitor<'_, '_> {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        self.rows += 1;
        for (seen, column) in self.seen.iter_mut().zip(&self.wanted).filter(|(seen, _)| !**seen) {
            *seen = row.get(column).is_some();
        }
        let key = row.get(&self.side.column).and_then(|cell| cell.text()).filter(|text| !text.is_empty());
        self.body.clear();
        self.side.plan.put_row(row, &self.side.column, &mut self.body);
        (self.each)(JoinRow { key: key.as_deref(), body: &self.body })
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}
