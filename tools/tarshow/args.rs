//! The flags, and which view of the samples they ask for.

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, Held, Input, Parallel, Talk, Usage};
use tarpipe::select::Select;
use tarpipe::size;
use tarpipe::slice::Slice;

use crate::columns::{Column, Columns};
use crate::preview::Protocol;
use crate::rows::Format;

/// Look at samples: as text, as a table, as files, as pictures, as a page
///
/// Without a flag that says otherwise, each sample is a block: its key, and a line for each field
/// with its size and what it holds. Text is shown, JSON is made compact, images and (where
/// ffprobe is there) audio and video are described.
///
/// Control characters in keys and fields are escaped before they reach a terminal, in JSON and
/// YAML always.
#[derive(Parser)]
#[command(name = "tarshow", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Print one line a sample: its size, its key, its fields and their sizes
    #[arg(short, long, group = "view")]
    pub list: bool,

    /// Print the keys
    #[arg(long, group = "view")]
    pub keys: bool,

    /// Print the number of samples
    #[arg(long, group = "view")]
    pub count: bool,

    /// Print JSON lines, an object a sample
    ///
    /// Fields that are neither text nor JSON are described; those named by -f come as base64.
    #[arg(long, group = "view")]
    pub json: bool,

    /// Print YAML, an item of a list a sample
    #[arg(long, group = "view")]
    pub yaml: bool,

    /// Print CSV with the columns of -f
    #[arg(long, group = "view", requires = "fields")]
    pub csv: bool,

    /// Print values separated by tabs, with the columns of -f
    #[arg(long, group = "view", requires = "fields")]
    pub tsv: bool,

    /// Write a parquet table with the columns of -f
    ///
    /// A column whose values are all numbers or all booleans has that type; binary fields are
    /// bytes, lists and objects are JSON text.
    #[arg(long, value_name = "FILE", group = "view", requires = "fields", value_parser = cli::output_name)]
    pub parquet: Option<String>,

    /// Write the bytes of FIELD from the first sample that has it
    #[arg(long, value_name = "FIELD", group = "view")]
    pub first: Option<Column>,

    /// Write the fields as files into DIR
    ///
    /// A file appears under its name only when it is whole. Links below DIR are not followed. A
    /// sample fails as exists when one of its files is there already, as in_the_way when a folder
    /// cannot be made for it.
    #[arg(long, value_name = "DIR", group = "view")]
    pub extract: Option<String>,

    /// Draw a contact sheet of N samples to FILE, a .jpg or a .png
    #[arg(long, value_name = "FILE", groups = ["view", "pictures"], value_parser = cli::output_name)]
    pub sheet: Option<String>,

    /// Show thumbnails in the terminal
    ///
    /// By the graphics protocol that the terminal understands: kitty, iterm or sixel; elsewhere
    /// as coloured half blocks. =HOW chooses one of kitty, iterm, sixel, blocks.
    #[arg(long, value_name = "HOW", groups = ["view", "pictures"], num_args = 0..=1, require_equals = true,
          default_missing_value = "auto")]
    pub preview: Option<Protocol>,

    /// Write a page about all samples to FILE: counts, fields, histograms, a gallery
    ///
    /// The page holds all that it shows and asks for nothing from any network.
    #[arg(long, value_name = "FILE", groups = ["view", "pictures"], value_parser = cli::output_name)]
    pub html: Option<String>,

    /// Choose fields, and values inside JSON fields: 'cls json.url json.size.0'
    ///
    /// A list separated by spaces. NEW=OLD;OLDER names the first that exists. __key__ is the first
    /// column of a table unless it is named; __source__ is the stream.
    #[arg(short, long, value_name = "FIELDS", conflicts_with_all = ["keys", "count", "first", "pictures"])]
    pub fields: Option<Columns>,

    /// Take the samples for which a CEL expression holds
    ///
    /// Its variables are key, fields (the list of fields) and each field by name: json fields as
    /// values, others as text; sample["c.jpg"] for names that are no words. key.glob('a/*') and
    /// key.matches('regex') look at the key.
    #[arg(long, value_name = "EXPR")]
    pub select: Option<Select>,

    /// Take these of the selected samples, counted from 0
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub slice: Option<Slice>,

    /// Replace files that are there
    #[arg(long, requires = "extract")]
    pub force: bool,

    /// Show N samples: 60 on a sheet, 100 in a page, all in a terminal
    #[arg(short, long, value_name = "N", requires = "pictures")]
    pub number: Option<usize>,

    /// Choose the N samples of a sheet or preview at random, not the first (a page always does)
    #[arg(long, requires = "number")]
    pub random: bool,

    /// Repeat the same random choice with the same number
    #[arg(long, value_name = "S", default_value_t = 0, requires = "pictures")]
    pub seed: u64,

    /// Make thumbnails of N pixels
    #[arg(long, value_name = "N", default_value_t = 192, requires = "pictures", value_parser = clap::value_parser!(u32).range(16..=1024))]
    pub side: u32,

    /// Use up to SIZE of memory for decoded pictures, in all threads together [default: half of the machine's]
    ///
    /// Pictures that need more together wait for each other; one that needs more alone is not drawn. The default is half
    /// of the machine's memory, or of the limit of its cgroup or ulimit.
    #[arg(long, value_name = "SIZE", requires = "pictures", value_parser = size::parse)]
    pub memory: Option<u64>,

    /// Draw this field, such as 'jpg;png' [default: the first image]
    #[arg(long, value_name = "FIELD", requires = "pictures")]
    pub image: Option<Column>,

    /// Write this field or JSON value under a picture
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "txt;caption;text;json.caption;json.text",
        requires = "pictures"
    )]
    pub caption: Column,

    /// Show the failure codes and speeds of a report of fetch or tarresize in the page
    #[arg(long, value_name = "FILE", requires = "html")]
    pub report: Vec<String>,

    /// Write what goes to stdout to NAME
    ///
    /// A file appears under its name only when it is whole. The suffix chooses the compression.
    #[arg(short, long, value_name = "NAME", default_value = "-", conflicts_with_all = ["parquet", "extract", "sheet", "html"], value_parser = cli::output_name)]
    pub output: String,

    #[command(flatten)]
    pub held: Held,
    #[command(flatten)]
    pub input: Input,
    #[command(flatten)]
    pub parallel: Parallel,
    #[command(flatten)]
    pub talk: Talk,
}

const EXAMPLES: &str = "Examples:
  # What is in there
  tarshow train-000.tar | less
  tarshow --count 'train-{000..147}.tar'

  # A table of what the JSON says
  tarshow --csv -f 'cls json.url json.width' train-000.tar > train.csv

  # A page about a dataset, with what failed on the way
  tarshow --html report.html --report fetch.parquet 'train-{000..147}.tar'

  # Forty of its pictures, chosen at random
  tarshow --sheet sheet.jpg -n 40 --random train-000.tar

  # The first large picture, as a file
  tarshow --first 'jpg;png' --select 'json.width > 2000' train-000.tar > large.jpg";

/// What is made of the samples.
pub enum View<'a> {
    Blocks,
    Lines,
    Keys,
    Count,
    Rows(Format),
    Parquet(&'a str),
    First(&'a Column),
    Extract(&'a str),
    Sheet(&'a str),
    Preview(Protocol),
    Html(&'a str),
}

impl Args {
    /// The one view that was asked for.
    pub fn view(&self) -> Result<View<'_>> {
        if self.random && self.html.is_some() {
            bail!(Usage("--html chooses at random already: leave --random out".into()));
        }
        Ok(if self.list {
            View::Lines
        } else if self.keys {
            View::Keys
        } else if self.count {
            View::Count
        } else if let Some(format) = self.row_format() {
            View::Rows(format)
        } else {
            self.file_view().unwrap_or(View::Blocks)
        })
    }

    fn row_format(&self) -> Option<Format> {
        let formats =
            [(self.json, Format::Json), (self.yaml, Format::Yaml), (self.csv, Format::Csv), (self.tsv, Format::Tsv)];
        formats.into_iter().find_map(|(asked, format)| asked.then_some(format))
    }

    fn file_view(&self) -> Option<View<'_>> {
        None.or(self.parquet.as_deref().map(View::Parquet))
            .or(self.first.as_ref().map(View::First))
            .or(self.extract.as_deref().map(View::Extract))
            .or(self.sheet.as_deref().map(View::Sheet))
            .or(self.preview.map(View::Preview))
            .or(self.html.as_deref().map(View::Html))
    }
}
