//! The flags of tarcreate, and the names and the kind of its sources.

use std::io::{IsTerminal, stdin};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use tarpipe::cli::{OutputFlags, ParallelFlags, Usage, Verbosity};
use tarpipe::sort::{SortOptions, Sorter};
use tarpipe::source::expand;
use tarpipe::table::TableFormat;
use tarpipe::tally::MaxFailures;
use tarpipe::value::list::List;
use tarpipe::value::size;

use crate::tarcreate::keys;

/// Make samples from plans, tables, lines, folders or an unordered archive
///
/// A plan has one line per file: the member name, blanks, and a source (a path, file:PATH,
/// text:TEXT, pipe:COMMAND or a URL). Adjacent lines with the same key make one sample. Empty
/// lines and lines that start with # are ignored. A plan is trusted like a script: its commands run.
///
/// In a table, each row is a sample and each column a field; @column holds the path or URL of the
/// content, __key__ the key. Tables are data: pipe:COMMAND in them is refused unless --allow-pipes
/// is given, but they may name any file that you can read.
///
/// An archive whose members are in no particular order comes out sorted by key, with each sample
/// in one piece.
///
/// New members get mode 0444 and time 0, so that the same sources give the same bytes. A sample
/// with a missing source is left out and counted as missing; a repeated key is an error.
#[derive(Parser)]
#[command(name = "tarcreate", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Plans, tables or archives to read; - for stdin
    ///
    /// {0000..0147} and {a,b} expand to lists. The suffix tells the kind: .csv, .tsv, .json,
    /// .jsonl, .parquet and .arrow are tables, .tar and its variants are archives, others plans.
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,

    /// Kind of the sources, whatever their suffix
    #[arg(long, value_name = "KIND", value_enum)]
    pub from: Option<SourceKind>,

    /// Make one sample per line, with these fields, such as 'txt cls'
    ///
    /// A list, separated by commas or blanks. @FIELD holds the path or URL of the content, __key__ the key. Without
    /// __key__, keys are numbers.
    #[arg(long, value_name = "FIELDS", conflicts_with = "from")]
    pub lines: Option<List>,

    /// Split lines into fields at TEXT [default: a tab]
    #[arg(long, value_name = "TEXT", requires = "lines")]
    pub separator: Option<String>,

    /// Make samples from the files below DIR: files with the same path up to the first dot are one sample
    ///
    /// Samples are sorted by key. Links to files are followed, links to folders are not.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sources", "from", "lines", "base"])]
    pub dir: Option<PathBuf>,

    /// Add a field cls: the index of the sample's top folder in DIR, in name order
    #[arg(long, requires = "dir")]
    pub labels_from_dirs: bool,

    /// Write the class names to FILE, one per line [default: beside the output]
    #[arg(long, value_name = "FILE", requires = "labels_from_dirs")]
    pub classes: Option<String>,

    /// Number the classes by the lines of FILE; samples of other folders fail as unknown_class
    #[arg(long, value_name = "FILE", requires = "labels_from_dirs", conflicts_with = "classes")]
    pub use_classes: Option<String>,

    /// Make keys from a template of {index} and {row}, such as {index:09}
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "dir")]
    pub key: Option<String>,

    /// Take the keys of a table from this column
    #[arg(long, value_name = "COLUMN", default_value = keys::KEY_COLUMN, conflicts_with_all = ["key", "dir"])]
    pub key_col: String,

    /// Resolve relative paths in DIR, and run commands there
    #[arg(short = 'C', long = "directory", value_name = "DIR")]
    pub base: Option<PathBuf>,

    /// Run pipe:COMMAND sources in tables and lines
    #[arg(long, conflicts_with = "dir")]
    pub allow_pipes: bool,

    /// Check before writing that every path exists and every key is valid and unique
    ///
    /// Reads the sources twice. URLs are not requested and commands are not run.
    #[arg(long)]
    pub check: bool,

    /// Skip samples with a file larger than SIZE (for an archive: samples larger than SIZE)
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size::parse)]
    pub max_size: u64,

    /// Exit with status 3 if more than N samples (or P%) fail [default: if all fail]
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<MaxFailures>,

    /// Hold up to SIZE of names, or of an archive, in memory; sort the rest on disk
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::parse)]
    pub memory: u64,

    /// Directory for data that does not fit into memory [default: TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub tmpdir: Option<PathBuf>,

    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceKind {
    /// Lines of member names and sources.
    Plan,
    /// Rows of fields.
    Table,
    /// An archive whose members are in any order.
    Tar,
}

const EXAMPLES: &str = "Examples:
  # Class folders, as torchvision's ImageFolder takes them
  tarcreate --dir train/ --labels-from-dirs -o train.tar

  # A plan: a picture, its class, and the output of a program
  printf '%s\\n' 'a/1.jpg img/1.jpg' 'a/1.cls text:7' 'a/1.json pipe:exiftool -json img/1.jpg' | tarcreate -o a.tar

  # A table with the columns __key__, @jpg and txt
  tarcreate -C /data --check captions.csv | tarsplit -n 10000 -o 'train-{shard:05}.tar'

  # One sample per line
  tarcreate --lines txt --key 'wiki/{index:09}' corpus.txt -o corpus.tar";

impl Args {
    /// The names of all sources; stdin if there are none.
    pub fn source_names(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for spec in &self.sources {
            all.extend(expand::expand(spec)?);
        }
        if all.is_empty() {
            all.push("-".into());
        }
        if all.iter().any(|name| name == "-") && stdin().is_terminal() {
            bail!(Usage("stdin is a terminal; name a plan or table, use --dir, or pipe one in".into()));
        }
        Ok(all)
    }

    /// The kind of the sources, which must be the same for all.
    pub fn source_kind(&self, names: &[String]) -> Result<SourceKind> {
        if let Some(kind) = self.from {
            return Ok(kind);
        }
        let kinds: Vec<SourceKind> = names.iter().map(|name| SourceKind::from_suffix(name)).collect();
        match kinds[..] {
            [first, ..] if kinds.iter().all(|kind| *kind == first) => Ok(first),
            _ => bail!(Usage("the sources are of different kinds; use --from KIND".into())),
        }
    }

    pub fn sorter(&self) -> Sorter {
        Sorter::new(self.sorting())
    }

    pub fn sorting(&self) -> SortOptions {
        let tmpdir = self.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
        SortOptions { memory: self.memory, tmpdir, compress: false, reverse: false }
    }
}

impl SourceKind {
    fn from_suffix(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let has = |suffix: &str| lower.ends_with(suffix);
        let is_tar = [".tgz", ".tzst", ".txz", ".tbz2", ".tbz"].into_iter().any(has)
            || ["", ".gz", ".zst", ".xz", ".bz2", ".lz4"].iter().any(|suffix| has(&format!(".tar{suffix}")));
        match TableFormat::from_suffix(name) {
            _ if is_tar => SourceKind::Tar,
            None | Some(TableFormat::Txt) => SourceKind::Plan,
            Some(_) => SourceKind::Table,
        }
    }
}
