//! Writes the bytes of one field of the first sample that has it, for `--first`.

use anyhow::{Result, anyhow, bail};
use tarpipe::cli::Usage;
use tarpipe::tally::Tally;

use crate::tarshow::args::Args;
use crate::tarshow::columns::{FieldColumn, FoundValue, SampleValues, text_of};
use crate::tarshow::samples::{SelectedSamples, leave_out};
use crate::tarshow::text::printable::acts;
use crate::tarshow::text::text_output::{self, TextOutput};

/// Writes the field and stops reading.
pub fn write(args: &Args, column: &FieldColumn) -> Result<Tally> {
    let mut selected = SelectedSamples::open(args)?;
    let tally = selected.tally();
    while let Some(sample) = selected.next().transpose()? {
        let bytes = match SampleValues::new(&sample).find(column) {
            Ok(None) => continue,
            Ok(Some(FoundValue::Field(member))) => member.data.clone(),
            Ok(Some(FoundValue::Value(value))) => text_of(&value).into_bytes(),
            Err(code) => {
                tally.add(|tally| leave_out(tally, &sample, code));
                continue;
            }
        };
        put(&args.output, &bytes)?;
        tally.add(|tally| tally.done());
        drop(selected);
        return Ok(tally.take());
    }
    Err(anyhow!("no sample has {}", column.name))
}

fn put(name: &str, bytes: &[u8]) -> Result<()> {
    if text_output::is_terminal(name) && !is_harmless(bytes) {
        bail!(Usage("stdout is a terminal and the field is not plain text; use -o FILE or a pipe".into()));
    }
    let mut output = TextOutput::create(name)?;
    output.write(bytes)?;
    output.finish()
}

fn is_harmless(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(|c| acts(c) && !"\n\t".contains(c)))
}
