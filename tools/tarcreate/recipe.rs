//! A recipe: where the items of a run come from.

use std::io::{IsTerminal, stdin};
use std::ops::ControlFlow;

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::sample::index;
use tarpipe::source::expand;
use tarpipe::table::Format;

use crate::content::Reading;
use crate::folder::Folder;
use crate::item::Item;
use crate::keys::{KEY_COLUMN, Naming};
use crate::lines::Lines;
use crate::{Args, Kind};
use crate::{plan, table};

/// Whether more items are wanted.
pub type Flow = ControlFlow<()>;

/// Takes items, one after another.
pub type Give<'a> = &'a mut dyn FnMut(Item) -> Result<Flow>;

/// Where items come from, and how they are understood.
#[derive(Debug)]
pub struct Recipe {
    from: From,
    names: Vec<String>,
    naming: Naming,
    reading: Reading,
}

#[derive(Debug)]
enum From {
    Plans,
    Tables,
    Lines(Lines),
    Folder(Folder),
}

impl Recipe {
    pub fn new(args: &Args) -> Result<Self> {
        let names = if args.dir.is_some() { Vec::new() } else { source_names(args)? };
        let (from, usual) = match (&args.dir, &args.lines) {
            (Some(dir), _) => (From::Folder(Folder::new(dir, args)?), None),
            (_, Some(fields)) => {
                let has_key = fields.split_whitespace().any(|field| field == args.key_col);
                (From::Lines(Lines::new(fields, args.separator.as_deref())?), (!has_key).then_some("{index:09}"))
            }
            _ if kind(args, &names)? == Kind::Table => (From::Tables, None),
            _ => (From::Plans, None),
        };
        if matches!(from, From::Plans) && (args.key.is_some() || args.key_col != KEY_COLUMN) {
            bail!(Usage("a plan has its keys in its names: --key and --key-col are for tables and lines".into()));
        }
        if args.labels_from_dirs && args.dir.is_none() {
            bail!(Usage("--labels-from-dirs needs --dir".into()));
        }
        if args.check && names.iter().any(|name| name == "-") {
            bail!(Usage("--check reads the sources twice: stdin cannot be".into()));
        }
        let pipes = args.allow_pipes || matches!(from, From::Plans);
        let reading = Reading { base: args.base.clone(), pipes };
        Ok(Recipe { from, names, naming: Naming::new(args, usual)?, reading })
    }

    /// Whether keys can come back at all.
    pub fn has_unique_keys(&self) -> bool {
        matches!(self.from, From::Folder(_))
    }

    /// Gives all items in order, until no more are wanted. `sorter` makes what sorts names.
    pub fn visit(&self, sorter: &SorterOf<'_>, give: Give<'_>) -> Result<()> {
        if let From::Folder(folder) = &self.from {
            return folder.visit(sorter(), give).map(drop);
        }
        let mut index = 0;
        for name in &self.names {
            let flow = match &self.from {
                From::Plans => plan::visit(name, &self.reading, give)?,
                From::Tables => table::visit(name, &self.naming, &mut index, &self.reading, give)?,
                From::Lines(lines) => lines.visit(name, &self.naming, &mut index, &self.reading, give)?,
                From::Folder(_) => break,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The file that takes the names of the classes, and the names.
    pub fn classes(&self, args: &Args) -> Result<Option<(String, String)>> {
        let From::Folder(folder) = &self.from else { return Ok(None) };
        let Some(list) = folder.class_list().filter(|_| args.use_classes.is_none()) else { return Ok(None) };
        let output = &args.output.output;
        let is_path = output != "-" && !output.starts_with(['|']) && !output.contains(':');
        match &args.classes {
            Some(file) => Ok(Some((file.clone(), list))),
            None if is_path => Ok(Some((index::sidecar(output, "classes.txt"), list))),
            None => bail!(Usage("there is no place beside the output: name a file with --classes".into())),
        }
    }
}

/// Makes a sorter for names.
pub type SorterOf<'a> = dyn Fn() -> tarpipe::sort::Sorter + 'a;

/// The names of all sources; stdin without any.
pub fn source_names(args: &Args) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for spec in &args.sources {
        all.extend(expand::expand(spec)?);
    }
    if all.is_empty() {
        all.push("-".into());
    }
    if all.iter().any(|name| name == "-") && stdin().is_terminal() {
        bail!(Usage("stdin is a terminal: name a plan, a table, --dir, or pipe one in".into()));
    }
    Ok(all)
}

/// What the sources are, which must be one thing.
pub fn kind(args: &Args, names: &[String]) -> Result<Kind> {
    if let Some(kind) = args.from {
        return Ok(kind);
    }
    let kinds: Vec<Kind> = names.iter().map(|name| kind_of(name)).collect();
    match kinds[..] {
        [first, ..] if kinds.iter().all(|kind| *kind == first) => Ok(first),
        _ => bail!(Usage("the sources are of several kinds (--from says which)".into())),
    }
}

fn kind_of(name: &str) -> Kind {
    let lower = name.to_ascii_lowercase();
    let is_tar = [".tgz", ".tzst", ".txz", ".tbz2", ".tbz"].iter().any(|suffix| lower.ends_with(suffix))
        || ["", ".gz", ".zst", ".xz", ".bz2", ".lz4"].iter().any(|suffix| lower.ends_with(&format!(".tar{suffix}")));
    match Format::from_suffix(name) {
        _ if is_tar => Kind::Tar,
        None | Some(Format::Txt) => Kind::Plan,
        Some(_) => Kind::Table,
    }
}
