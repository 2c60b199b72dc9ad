//! The command line: every flag, and which view of the samples the flags select.

use anyhow::{Result, bail};
use clap::Parser;
use tarpipe::cli::{self, InputFlags, ParallelFlags, SampleLimit, Usage, Verbosity};
use tarpipe::sample::select::Select;
use tarpipe::value::size;
use tarpipe::value::slice::Slice;

use crate::tarshow::columns::{FieldColumn, FieldColumns};
use crate::tarshow::preview::Protocol;
use crate::tarshow::text::rows::RowFormat;

/// Show samples as text, tables, files, pictures or an HTML page
///
/// By default each sample is a block: its key, and one line per field with its size and content.
/// Text is shown, JSON is compacted, and images and (if ffprobe is installed) audio and video are
/// described.
///
/// Control characters in keys and fields are escaped on a terminal, and always in JSON and YAML.
#[derive(Parser)]
#[command(name = "tarshow", version, after_long_help = EXAMPLES)]
pub struct Args {
    /// Print one line per sample: its size, its key, its fields and their sizes
    #[arg(short, long, group = "view")]
    pub list: bool,

    /// Print the keys
    #[arg(long, group = "view")]
    pub keys: bool,

    /// Print the number of samples
    #[arg(long, group = "view")]
    pub count: bool,

    /// Print JSON lines, one object per sample
    ///
    /// Fields that are neither text nor JSON are described; with -f they are base64.
    #[arg(long, group = "view")]
    pub json: bool,

    /// Print a YAML list, one item per sample
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
    pub first: Option<FieldColumn>,

    /// Write the fields as files into DIR
    ///
    /// A file appears under its name only when it is complete. Links below DIR are not followed. A
    /// sample fails as exists if one of its files already exists, as in_the_way if its folder cannot
    /// be made.
    #[arg(long, value_name = "DIR", group = "view")]
    pub extract: Option<String>,

    /// Draw a contact sheet of N samples to FILE, a .jpg or a .png
    #[arg(long, value_name = "FILE", groups = ["view", "pictures"], value_parser = cli::output_name)]
    pub sheet: Option<String>,

    /// Show thumbnails in the terminal
    ///
    /// Uses the graphics protocol of the terminal (kitty, iterm or sixel), else coloured half blocks.
    /// =HOW selects kitty, iterm, sixel or blocks.
    #[arg(long, value_name = "HOW", groups = ["view", "pictures"], num_args = 0..=1, require_equals = true,
          default_missing_value = "auto")]
    pub preview: Option<Protocol>,

    /// Write an HTML page about all samples to FILE: counts, fields, histograms, a gallery
    ///
    /// The page is self-contained: it loads nothing from a network.
    #[arg(long, value_name = "FILE", groups = ["view", "pictures"], value_parser = cli::output_name)]
    pub html: Option<String>,

    /// Select fields, and values inside JSON fields: 'cls json.url json.size.0'
    ///
    /// A list, separated by commas or blanks. NEW=OLD;OLDER takes the first that exists. __key__ is the first
    /// column of a table unless it is listed; __source__ is the stream.
    #[arg(short, long, value_name = "FIELDS", conflicts_with_all = ["keys", "count", "first", "pictures"])]
    pub fields: Option<FieldColumns>,

    /// Show only the samples for which a CEL expression holds
    ///
    /// The variables are key, fields (the list of fields) and each field by name: json fields as
    /// values, others as text; sample["c.jpg"] for names that are not identifiers. key.glob('a/*')
    /// and key.matches('regex') test the key.
    #[arg(long, value_name = "EXPR")]
    pub select: Option<Select>,

    /// Show only these of the selected samples, counted from 0
    #[arg(long, value_name = "LO:HI[:STEP]")]
    pub slice: Option<Slice>,

    /// Replace existing files
    #[arg(long, requires = "extract")]
    pub force: bool,

    /// Show N samples [default: 60 on a sheet, 100 in a page, all in a terminal]
    #[arg(short, long, value_name = "N", requires = "pictures")]
    pub number: Option<usize>,

    /// Choose the N samples of a sheet or preview at random instead of the first (a page always does)
    #[arg(long, requires = "number")]
    pub random: bool,

    /// Seed of the random choice: the same number gives the same choice
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
    pub image: Option<FieldColumn>,

    /// Show this field or JSON value as the caption of a picture
    #[arg(
        long,
        value_name = "FIELD",
        default_value = "txt;caption;text;json.caption;json.text",
        requires = "pictures"
    )]
    pub caption: FieldColumn,

    /// Include the failure codes and speeds of a report by fetch or tarresize in the page
    #[arg(long, value_name = "FILE", requires = "html")]
    pub report: Vec<String>,

    /// Write to NAME instead of stdout
    ///
    /// A file appears under its name only when it is complete. The suffix selects the compression.
    #[arg(short, long, value_name = "NAME", default_value = "-", conflicts_with_all = ["parquet", "extract", "sheet", "html"], value_parser = cli::output_name)]
    pub output: String,

    #[command(flatten)]
    pub held: SampleLimit,
    #[command(flatten)]
    pub input: InputFlags,
    #[command(flatten)]
    pub parallel: ParallelFlags,
    #[command(flatten)]
    pub talk: Verbosity,
}

const EXAMPLES: &str = "Examples:
  # Look into a shard
  tarshow train-000.tar | less
  tarshow --count 'train-{000..147}.tar'

  # A table of JSON values
  tarshow --csv -f 'cls json.url json.width' train-000.tar > train.csv

  # A page about a dataset, including fetch's failures
  tarshow --html report.html --report fetch.parquet 'train-{000..147}.tar'

  # Forty random pictures
  tarshow --sheet sheet.jpg -n 40 --random train-000.tar

  # The first large picture, as a file
  tarshow --first 'jpg;png' --select 'json.width > 2000' train-000.tar > large.jpg";

/// How to show the samples.
pub enum View<'a> {
    Blocks,
    Lines,
    Keys,
    Count,
    Rows(RowFormat),
    Parquet(&'a str),
    First(&'a FieldColumn),
    Extract(&'a str),
    Sheet(&'a str),
    Preview(Protocol),
    Html(&'a str),
}

impl Args {
    /// The view that the flags select.
    pub fn view(&self) -> Result<View<'_>> {
        if self.random && self.html.is_some() {
            bail!(Usage("--html always chooses at random; remove --random".into()));
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

    fn row_format(&self) -> Option<RowFormat> {
        let formats = [
            (self.json, RowFormat::Json),
            (self.yaml, RowFormat::Yaml),
            (self.csv, RowFormat::Csv),
            (self.tsv, RowFormat::Tsv),
        ];
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
