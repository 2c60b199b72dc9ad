//! Lists of tables: expands what the user named, and opens one table after
//! another.

use std::io::{Cursor, IsTerminal, stdin};
use std::path::Path;

use super::{Flow, Projection, Table, TableFormat, TableRow, Visitor};
use crate::location;
use crate::source::{self, expand};
use crate::usage::Usage;
use anyhow::{Context, Result, bail};

/// The tables to read, in order. URLs to fetch count as a table of one column.
pub struct Tables {
    parts: Vec<TableSource>,
    format: Option<TableFormat>,
}

/// What an argument turned out to be.
enum TableSource {
    Table(String),
    /// URLs that are rows themselves, one per line.
    Urls(String),
}

impl Tables {
    /// Expands what the user named: braces, folders, globs and files of names
    /// (`files_from`). A web URL that does not look like a table is a row
    /// itself. Without any name, stdin is the table.
    ///
    /// # Errors
    ///
    /// A pattern or folder without any table, an unreadable folder, or a
    /// terminal as stdin (a usage error). Files are not opened yet.
    pub fn find(specs: &[String], files_from: &[String], format: Option<TableFormat>) -> Result<Self> {
        let mut parts = Vec::new();
        for spec in specs {
            if is_row(spec, format) {
                parts.push(TableSource::Urls(expand::expand(spec)?.join("\n")));
                continue;
            }
            let mut names = expand::expand(spec)?;
            if spec.ends_with('/') && matches!(location::scheme(spec), Some("s3" | "gs" | "az")) {
                // As in a folder on disk, only tables count.
                names.retain(|name| TableFormat::from_suffix(name).is_some());
            }
            for name in names {
                parts.extend(files(&name)?.into_iter().map(TableSource::Table));
            }
        }
        for file in files_from {
            parts.extend(expand::from_file(file)?.into_iter().map(TableSource::Table));
        }
        if specs.is_empty() && files_from.is_empty() {
            if stdin().is_terminal() {
                bail!(Usage("stdin is a terminal: name a table or pipe one in".into()));
            }
            parts.push(TableSource::Table("-".into()));
        }
        Ok(Tables { parts, format })
    }

    /// Returns true if one of them is stdin, which can be read only once.
    pub fn has_stdin(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TableSource::Table(name) if name == "-"))
    }

    /// The total number of rows, if every table knows its own without being
    /// read. Opens all of them.
    ///
    /// # Errors
    ///
    /// A table cannot be opened.
    pub fn known_rows(&self) -> Result<Option<u64>> {
        if self.has_stdin() {
            return Ok(None);
        }
        let mut rows = 0;
        for part in &self.parts {
            match part {
                TableSource::Urls(urls) => rows += urls.lines().count() as u64,
                TableSource::Table(name) => match self.open(part)?.known_rows().with_context(|| name.clone())? {
                    Some(known) => rows += known,
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(rows))
    }

    /// Opens the first table; also returns its name.
    ///
    /// # Errors
    ///
    /// The table cannot be opened, or there is none.
    pub fn first(&self) -> Result<(String, Table)> {
        let part = self.parts.first().context("no table")?;
        Ok((part.name(), self.open(part)?))
    }

    /// The columns of the first table, which is opened for it; None if it cannot
    /// be opened twice, such as stdin, or cannot be read. For formats without a
    /// schema, those of its first row.
    pub fn first_columns(&self) -> Option<Vec<String>> {
        let Some(TableSource::Table(name)) = self.parts.first() else { return None };
        if !source::can_be_read_again(name) {
            return None;
        }
        let table = self.first().ok()?.1;
        if let Some(columns) = table.schema().ok()? {
            return Some(columns.into_iter().map(|column| column.name).collect());
        }
        let mut names = FirstColumns(None);
        _ = table.visit(&Projection::All, &mut names).ok()?;
        names.0
    }

    /// Returns true if there is a single table.
    pub fn is_one(&self) -> bool {
        self.parts.len() == 1
    }

    /// Opens all tables, one after another, as the iterator advances. A table
    /// that cannot be opened yields an error in its position.
    pub fn each(&self) -> impl Iterator<Item = (String, Result<Table>)> + '_ {
        self.parts.iter().map(|part| (part.name(), self.open(part)))
    }

    /// The total number of rows. Reads the tables that do not know it; a bad
    /// row is an error.
    pub fn count_rows(&self) -> Result<u64> {
        if let Some(known) = self.known_rows()? {
            return Ok(known);
        }
        let mut count = RowCounter(0);
        for (name, table) in self.each() {
            _ = table?.visit(&Projection::All, &mut count).with_context(|| name)?;
        }
        Ok(count.0)
    }

    fn open(&self, part: &TableSource) -> Result<Table> {
        match part {
            TableSource::Urls(urls) => Table::from_stream(Box::new(Cursor::new(urls.clone())), TableFormat::Txt),
            TableSource::Table(name) => Table::open(name, self.format),
        }
    }
}

/// Counts rows without decoding them.
struct RowCounter(u64);

impl Visitor for RowCounter {
    fn row(&mut self, _: &TableRow<'_>) -> Result<Flow> {
        self.0 += 1;
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}

/// Takes the column names of the first row.
struct FirstColumns(Option<Vec<String>>);

impl Visitor for FirstColumns {
    fn row(&mut self, row: &TableRow<'_>) -> Result<Flow> {
        self.0 = Some(row.cells.iter().map(|(name, _)| (*name).to_owned()).collect());
        Ok(Flow::Break(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}

impl TableSource {
    fn name(&self) -> String {
        match self {
            TableSource::Table(name) => location::display(name),
            TableSource::Urls(urls) => urls.lines().next().unwrap_or_default().into(),
        }
    }
}

/// Whether an argument is a URL to fetch rather than a table to read.
fn is_row(spec: &str, format: Option<TableFormat>) -> bool {
    let is_web = matches!(location::scheme(spec), Some("http" | "https"));
    is_web && format.is_none() && TableFormat::from_suffix(spec).is_none()
}

/// The tables of a name: itself, those in a folder, or those that match a glob.
fn files(name: &str) -> Result<Vec<String>> {
    if !location::is_path(name) {
        return Ok(vec![name.to_owned()]);
    }
    let path = location::path_of(name);
    if Path::new(path).is_dir() {
        return in_folder(path);
    }
    if !path.contains(['*', '?', '[']) || Path::new(path).exists() {
        return Ok(vec![name.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in glob::glob(path)? {
        // A folder that cannot be read may contain tables: do not skip it.
        found.push(entry?.to_string_lossy().into_owned());
    }
    if found.is_empty() {
        bail!("{name}: no such file");
    }
    Ok(found)
}

/// The tables in a folder, by suffix and sorted by name; folders below are not
/// searched.
fn in_folder(folder: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.to_owned())? {
        let path = entry?.path().to_string_lossy().into_owned();
        if TableFormat::from_suffix(&path).is_some() {
            names.push(path);
        }
    }
    if names.is_empty() {
        bail!("{folder}: no tables in this folder");
    }
    names.sort_unstable();
    Ok(names)
}
