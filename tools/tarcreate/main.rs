//! Plans, tables, lines, folders and unordered archives in, samples out, in the order of the plan.
//! Files are read side by side; nothing is written that its key, its field or its source forbid.

mod check;
mod content;
mod folder;
mod item;
mod keys;
mod lines;
mod plan;
mod recipe;
mod regroup;
mod table;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use tarpipe::cli::{self, Outcome, Output, Parallel, Talk};
use tarpipe::report::MaxFailures;
use tarpipe::size;
use tarpipe::sort::{Options, Sorter};

use recipe::Recipe;

/// Make samples from plans, tables, lines, folders or an unordered archive
///
/// A plan has a line a file: a name, blanks, and a source, which is a path, file:PATH, text:TEXT,
/// pipe:COMMAND or a URL; lines with one key that follow each other are one sample. Empty lines
/// and lines that start with # are passed over. A plan is trusted like a script: its commands run.
///
/// A table has a row a sample: a column is a field, @column holds the path or URL of its content,
/// __key__ the key. Tables are data: pipe:COMMAND in them is refused without --allow-pipes; but
/// they may name any file that you can read.
///
/// An archive whose members stand in no order comes out sorted by key, each sample whole.
///
/// New members have mode 0444 and the time 0, so that the same sources give the same bytes. A
/// sample that lacks a source is left out and counted as missing; a key that comes back is an error.
#[derive(Parser)]
#[command(name = "tarcreate", version, after_long_help = EXAMPLES)]
struct Args {
    /// Plans, tables or archives to read; - for stdin
    ///
    /// {0000..0147} and {a,b} make lists. Their suffix says what they are: .csv, .tsv, .json,
    /// .jsonl, .parquet and .arrow are tables, .tar and its like are archives, all else plans.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,

    /// Say what the sources are, whatever they are called
    #[arg(long, value_name = "KIND", value_enum)]
    from: Option<Kind>,

    /// Make a sample of every line, with these fields, such as 'txt cls'
    ///
    /// @FIELD holds the path or URL of its content, __key__ the key. Without it keys count up.
    #[arg(long, value_name = "FIELDS", conflicts_with = "from")]
    lines: Option<String>,

    /// Cut lines into fields at TEXT; a tab, if not given
    #[arg(long, value_name = "TEXT", requires = "lines")]
    separator: Option<String>,

    /// Make samples of the files below DIR: those with one path up to the first dot are one
    ///
    /// They come sorted by key. Links to files are followed, links to folders are not.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["sources", "from", "lines", "base"])]
    dir: Option<PathBuf>,

    /// Add a field cls: the number of the folder in DIR, in the order of their names
    #[arg(long, requires = "dir")]
    labels_from_dirs: bool,

    /// Write the names of the classes to FILE, a line each; without it, beside the output
    #[arg(long, value_name = "FILE", requires = "labels_from_dirs")]
    classes: Option<String>,

    /// Number the classes by the lines of FILE; a folder that is not in it fails as unknown_class
    #[arg(long, value_name = "FILE", requires = "labels_from_dirs", conflicts_with = "classes")]
    use_classes: Option<String>,

    /// Make keys of a template, such as {index:09}; it knows {index} and {row}
    #[arg(long, value_name = "TEMPLATE", conflicts_with = "dir")]
    key: Option<String>,

    /// Take the keys of a table from this column
    #[arg(long, value_name = "COLUMN", default_value = keys::KEY_COLUMN, conflicts_with_all = ["key", "dir"])]
    key_col: String,

    /// Take paths from DIR, and run commands there
    #[arg(short = 'C', long = "directory", value_name = "DIR")]
    base: Option<PathBuf>,

    /// Run pipe:COMMAND where a table or a line asks for it
    #[arg(long, conflicts_with = "dir")]
    allow_pipes: bool,

    /// Before anything is written, see that every path exists and every key is good and unique
    ///
    /// Reads the sources twice. URLs are not asked for and commands are not run.
    #[arg(long)]
    check: bool,

    /// Leave out samples with a file larger than SIZE; of an archive, samples larger than that
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = size::parse)]
    max_size: u64,

    /// Exit with status 3 when more than N samples fail, or P% of them; without it, when all do
    #[arg(long, value_name = "N|P%")]
    max_failures: Option<MaxFailures>,

    /// Hold SIZE of names, or of an archive, in memory; more is sorted on disk
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::parse)]
    memory: u64,

    /// Put what does not fit into memory into DIR; without it, into TMPDIR or /tmp
    #[arg(long, value_name = "DIR")]
    tmpdir: Option<PathBuf>,

    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    parallel: Parallel,
    #[command(flatten)]
    talk: Talk,
}

/// What a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Lines of names and sources.
    Plan,
    /// Rows of fields.
    Table,
    /// An archive whose members stand in any order.
    Tar,
}

const EXAMPLES: &str = "Examples:
  # Class folders, as torchvision's ImageFolder takes them
  tarcreate --dir train/ --labels-from-dirs -o train.tar

  # A plan: a picture, its class, and what a program says of it
  printf '%s\\n' 'a/1.jpg img/1.jpg' 'a/1.cls text:7' 'a/1.json pipe:exiftool -json img/1.jpg' | tarcreate -o a.tar

  # A table with the columns __key__, @jpg and txt
  tarcreate -C /data --check captions.csv | tarsplit -n 10000 -o 'train-{shard:05}.tar'

  # A line a sample
  tarcreate --lines txt --key 'wiki/{index:09}' corpus.txt -o corpus.tar";

fn main() -> ExitCode {
    cli::main(run)
}

fn run(args: Args) -> Result<Outcome> {
    if let Some(names) = regroup::archives(&args)? {
        return regroup::run(&args, names);
    }
    let recipe = Recipe::new(&args)?;
    let classes = recipe.classes(&args)?;
    if args.check {
        check::all(&args, &recipe)?;
    }
    let out = args.output.create(&args.parallel)?;
    let tally = write::all(&args, recipe, out)?;
    if let Some((file, names)) = classes {
        tarpipe::sink::write_text(&file, &names)?;
    }
    Ok(Outcome { tally, max_failures: args.max_failures })
}

impl Args {
    fn sorter(&self) -> Sorter {
        Sorter::new(self.sorting())
    }

    fn sorting(&self) -> Options {
        let tmpdir = self.tmpdir.clone().unwrap_or_else(std::env::temp_dir);
        Options { memory: self.memory, tmpdir, compress: false, reverse: false }
    }
}
