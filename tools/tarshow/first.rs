//! The bytes of one field of the first sample that has it.

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::Usage;
use tarpipe::tally::Tally;

use crate::args::Args;
use crate::columns::{Column, Found, View, text_of};
use crate::flow::{Taken, tell};
use crate::output::{self, Output};
use crate::readable::acts;

/// Writes the field and reads no further.
pub fn write(args: &Args, column: &Column) -> Result<Tally> {
    let mut taken = Taken::open(args)?;
    let tally = taken.tally();
    while let Some(sample) = taken.next().transpose()? {
        let bytes = match View::new(&sample).find(column) {
            Ok(None) => continue,
            Ok(Some(Found::Field(member))) => member.data.clone(),
            Ok(Some(Found::Value(value))) => text_of(&value).into_bytes(),
            Err(code) => {
                tell(&sample, code);
                tally.add(|tally| tally.fail(code));
                continue;
            }
        };
        put(&args.output, &bytes)?;
        tally.add(|tally| tally.done());
        drop(taken);
        return Ok(tally.take());
    }
    Err(anyhow!("no sample has {}", column.name))
}

fn put(name: &str, bytes: &[u8]) -> Result<()> {
    if output::is_terminal(name) && !is_harmless(bytes) {
        bail!(Usage("stdout is a terminal and the field is not plain text: use -o FILE or a pipe".into()));
    }
    let mut output = Output::create(name)?;
    output.write(bytes)?;
    output.finish()
}

fn is_harmless(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(|c| acts(c) && !"\n\t".contains(c)))
}
