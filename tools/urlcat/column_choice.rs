//! Chooses the columns with the URL and the caption if the user has not, and knows the columns of the first table, for
//! messages about columns that do not exist.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::messages;
use tarpipe::table::Tables;
use tarpipe::value::nearest::nearest;

use crate::urlcat::args::Args;
use crate::urlcat::rows::parse_keep;

/// Names of URL columns in well-known datasets, in any case.
const URL_NAMES: [&str; 5] = ["url", "image_url", "img_url", "video_url", "urls"];
/// Names of caption columns in well-known datasets, in any case.
const CAPTION_NAMES: [&str; 2] = ["caption", "text"];

/// The columns with a meaning.
pub struct ColumnChoice {
    pub url: String,
    pub caption: String,
    /// The columns of the first table; empty if they are not known before the rows are read.
    known: Vec<String>,
}

impl ColumnChoice {
    /// A usage error if the only table has a schema and lacks a column that the flags name.
    pub fn new(args: &Args, tables: &Tables) -> Result<Self> {
        let known = tables.first_columns().unwrap_or_default();
        let guess = |names: &[&str], default: &str| match known.iter().any(|name| name == default) {
            true => None,
            false => only(known.iter().filter(|name| names.iter().any(|known| known.eq_ignore_ascii_case(name)))),
        };
        let mut guessed = Vec::new();
        let mut choose = |chosen: &Option<String>, found: Option<&String>, default: &str, what: &str| {
            let name = chosen.clone().unwrap_or_else(|| found.map_or(default, |name| name).to_owned());
            if chosen.is_none() && name != default {
                guessed.push(format!("'{name}' as the {what}"));
            }
            name
        };
        let url = choose(&args.url_col, guess(&URL_NAMES, "url"), "url", "URL");
        let found = if args.url_col.is_none() { guess(&CAPTION_NAMES, "caption") } else { None };
        let caption = choose(&args.caption_col, found, "caption", "caption");
        if !guessed.is_empty() {
            messages::notice(&format!(
                "reading column {}; --url-col and --caption-col name others",
                guessed.join(" and ")
            ));
        }
        let choice = ColumnChoice { url, caption, known };
        if tables.is_one()
            && !choice.known.is_empty()
            && tables.first()?.1.schema().is_ok_and(|schema| schema.is_some())
        {
            choice.check_flags(args)?;
        }
        Ok(choice)
    }

    fn check_flags(&self, args: &Args) -> Result<()> {
        let is_known = |name: &str| self.known.iter().any(|known| known == name);
        let in_filter = args.filter.iter().flat_map(|filter| filter.variables()).map(|name| ("--where", name.as_str()));
        let kept = args.keep.as_deref().map(parse_keep).transpose()?.unwrap_or_default();
        let in_keep = kept.iter().map(|(_, old)| ("--keep", *old));
        match in_filter.chain(in_keep).find(|(_, name)| !is_known(name)) {
            Some((flag, name)) => bail!(Usage(format!("{flag}: no column '{name}'{}", self.hint(name)))),
            None => Ok(()),
        }
    }

    /// What to say after `no column 'NAME'`: the nearest column, or all of them.
    pub fn hint(&self, name: &str) -> String {
        match nearest(name, self.known.iter().map(String::as_str)) {
            Some(nearest) => format!("; did you mean '{nearest}'?"),
            None if self.known.is_empty() => String::new(),
            None => format!(" (the columns are: {})", self.known.join(", ")),
        }
    }
}

/// The only item of an iterator; None if there are several.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    items.next().filter(|_| items.next().is_none())
}
