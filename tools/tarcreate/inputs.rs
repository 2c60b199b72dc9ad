//! The inputs of a run: plans, tables, lines or a folder, and how their items become samples.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;
use tarpipe::sample::index;
use tarpipe::table::Flow;

use crate::tarcreate::content::ContentResolver;
use crate::tarcreate::folder::SourceFolder;
use crate::tarcreate::keys::{KEY_COLUMN, KeyNaming};
use crate::tarcreate::lines::LineFormat;
use crate::tarcreate::planned_sample::PlannedItem;
use crate::tarcreate::{Args, SourceKind};
use crate::tarcreate::{plan, table};

/// Receives items one after another, and tells whether it wants more.
pub type Emit<'a> = &'a mut dyn FnMut(PlannedItem) -> Result<Flow>;

/// The sources of a run, with the rules for keys and contents.
#[derive(Debug)]
pub struct Inputs {
    from: InputForm,
    names: Vec<String>,
    naming: KeyNaming,
    resolver: ContentResolver,
}

#[derive(Debug)]
enum InputForm {
    Plans,
    Tables,
    Lines(LineFormat),
    Folder(SourceFolder),
}

impl Inputs {
    pub fn new(args: &Args) -> Result<Self> {
        let names = if args.dir.is_some() { Vec::new() } else { args.source_names()? };
        let (from, default_key) = match (&args.dir, &args.lines) {
            (Some(dir), _) => (InputForm::Folder(SourceFolder::new(dir, args)?), None),
            (_, Some(fields)) => {
                let has_key = fields.contains(&args.key_col);
                (
                    InputForm::Lines(LineFormat::new(fields, args.separator.as_deref())?),
                    (!has_key).then_some("{index:09}"),
                )
            }
            _ if args.source_kind(&names)? == SourceKind::Table => (InputForm::Tables, None),
            _ => (InputForm::Plans, None),
        };
        if matches!(from, InputForm::Plans) && (args.key.is_some() || args.key_col != KEY_COLUMN) {
            bail!(Usage("--key and --key-col are for tables and lines; a plan names its keys".into()));
        }
        if args.labels_from_dirs && args.dir.is_none() {
            bail!(Usage("--labels-from-dirs needs --dir".into()));
        }
        if args.check && names.iter().any(|name| name == "-") {
            bail!(Usage("--check reads the sources twice and cannot use stdin".into()));
        }
        let pipes = args.allow_pipes || matches!(from, InputForm::Plans);
        let resolver = ContentResolver { base: args.base.clone(), pipes };
        Ok(Inputs { from, names, naming: KeyNaming::new(args, default_key)?, resolver })
    }

    /// Whether the keys are unique by construction.
    pub fn has_unique_keys(&self) -> bool {
        matches!(self.from, InputForm::Folder(_))
    }

    /// Emits all items in order, until no more are wanted.
    pub fn visit(&self, sorter: &NewSorter<'_>, emit: Emit<'_>) -> Result<()> {
        if let InputForm::Folder(folder) = &self.from {
            return folder.visit(sorter(), emit).map(drop);
        }
        let mut index = 0;
        for name in &self.names {
            let flow = match &self.from {
                InputForm::Plans => plan::visit(name, &self.resolver, emit)?,
                InputForm::Tables => table::visit(name, &self.naming, &mut index, &self.resolver, emit)?,
                InputForm::Lines(lines) => lines.visit(name, &self.naming, &mut index, &self.resolver, emit)?,
                InputForm::Folder(_) => break,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The file for the class names, and its content.
    pub fn classes(&self, args: &Args) -> Result<Option<(String, String)>> {
        let InputForm::Folder(folder) = &self.from else { return Ok(None) };
        let Some(list) = folder.class_list().filter(|_| args.use_classes.is_none()) else { return Ok(None) };
        let output = &args.output.output;
        let is_path = output != "-" && !output.starts_with(['|']) && !output.contains(':');
        match &args.classes {
            Some(file) => Ok(Some((file.clone(), list))),
            None if is_path => Ok(Some((index::sidecar(output, "classes.txt"), list))),
            None => bail!(Usage("no file name for the classes beside this output; use --classes FILE".into())),
        }
    }
}

/// Makes a sorter for file names.
pub type NewSorter<'a> = dyn Fn() -> tarpipe::sort::Sorter + 'a;
