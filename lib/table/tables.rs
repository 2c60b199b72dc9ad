//! The tables that were named, in order: found, opened, read one after another.

use std::io::{Cursor, IsTerminal, stdin};
use std::path::Path;

use super::{Columns, Flow, Format, Row, Table, Visitor};
use crate::location;
use crate::source::expand;
use crate::usage::Usage;
use anyhow::{Context, Result, bail};

/// Names of tables, and rows that were named in their place.
pub struct Tables {
    parts: Vec<Part>,
    format: Option<Format>,
}

enum Part {
    Table(String),
    /// URLs that are rows themselves, a line each.
    Urls(String),
}

impl Tables {
    /// Expands what the user named: braces, folders, globs; a URL that is no table is a row itself.
    pub fn find(specs: &[String], files_from: &[String], format: Option<Format>) -> Result<Self> {
        let mut parts = Vec::new();
        for spec in specs {
            if is_row(spec, format) {
                parts.push(Part::Urls(expand::expand(spec)?.join("\n")));
                continue;
            }
            let mut names = expand::expand(spec)?;
            if spec.ends_with('/') && matches!(location::scheme(spec), Some("s3" | "gs" | "az")) {
                // All that is below in a store; as in a folder on disk, the tables count.
                names.retain(|name| Format::from_suffix(name).is_some());
            }
            for name in names {
                parts.extend(files(&name)?.into_iter().map(Part::Table));
            }
        }
        for file in files_from {
            parts.extend(expand::from_file(file)?.into_iter().map(Part::Table));
        }
        if specs.is_empty() && files_from.is_empty() {
            if stdin().is_terminal() {
                bail!(Usage("stdin is a terminal: name a table or pipe one in".into()));
            }
            parts.push(Part::Table("-".into()));
        }
        Ok(Tables { parts, format })
    }

    /// Whether one of them is stdin.
    pub fn has_stdin(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Table(name) if name == "-"))
    }

    /// The number of rows, if every table knows its own without being read.
    pub fn known_rows(&self) -> Result<Option<u64>> {
        if self.has_stdin() {
            return Ok(None);
        }
        let mut rows = 0;
        for part in &self.parts {
            match part {
                Part::Urls(urls) => rows += urls.lines().count() as u64,
                Part::Table(name) => match self.open(part)?.known_rows().with_context(|| name.clone())? {
                    Some(known) => rows += known,
                    None => return Ok(None),
                },
            }
        }
        Ok(Some(rows))
    }

    /// The first table, by its name.
    pub fn first(&self) -> Result<(String, Table)> {
        let part = self.parts.first().context("no table")?;
        Ok((part.name(), self.open(part)?))
    }

    /// Every table in turn, by its name; one that cannot be opened is an error in its place.
    pub fn each(&self) -> impl Iterator<Item = (String, Result<Table>)> + '_ {
        self.parts.iter().map(|part| (part.name(), self.open(part)))
    }

    /// The number of rows of all tables, read where they do not know it.
    pub fn count_rows(&self) -> Result<u64> {
        if let Some(known) = self.known_rows()? {
            return Ok(known);
        }
        let mut count = Count(0);
        for (name, table) in self.each() {
            _ = table?.visit(&Columns::All, &mut count).with_context(|| name)?;
        }
        Ok(count.0)
    }

    fn open(&self, part: &Part) -> Result<Table> {
        match part {
            Part::Urls(urls) => Table::from_stream(Box::new(Cursor::new(urls.clone())), Format::Txt),
            Part::Table(name) => Table::open(name, self.format),
        }
    }
}

struct Count(u64);

impl Visitor for Count {
    fn row(&mut self, _: &Row<'_>) -> Result<Flow> {
        self.0 += 1;
        Ok(Flow::Continue(()))
    }

    fn bad_row(&mut self, number: u64, why: &str) -> Result<Flow> {
        bail!("row {number}: {why}")
    }
}

impl Part {
    fn name(&self) -> String {
        match self {
            Part::Table(name) => location::display(name),
            Part::Urls(urls) => urls.lines().next().unwrap_or_default().into(),
        }
    }
}

/// Whether an argument is a URL to fetch rather than a table to read.
fn is_row(spec: &str, format: Option<Format>) -> bool {
    let is_web = matches!(location::scheme(spec), Some("http" | "https"));
    is_web && format.is_none() && Format::from_suffix(spec).is_none()
}

/// The tables behind a name: itself, those in a folder, or those that a glob matches.
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
        // A folder that cannot be read may hold tables.
        found.push(entry?.to_string_lossy().into_owned());
    }
    if found.is_empty() {
        bail!("{name}: no such file");
    }
    Ok(found)
}

fn in_folder(folder: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.to_owned())? {
        let path = entry?.path().to_string_lossy().into_owned();
        if Format::from_suffix(&path).is_some() {
            names.push(path);
        }
    }
    if names.is_empty() {
        bail!("{folder}: no table in this folder");
    }
    names.sort_unstable();
    Ok(names)
}
