//! --check: looks at every source and every key before anything is written.

use anyhow::{Result, bail};
use tarpipe::messages;
use tarpipe::table::Flow;
use tarpipe::tally::counted;

use crate::tarcreate::Args;
use crate::tarcreate::inputs::Inputs;
use crate::tarcreate::keys::UniqueKeys;
use crate::tarcreate::planned_sample::{InputPosition, ItemRefusal, PlannedItem};

/// Number of problems to describe; all are counted.
const SHOWN: u64 = 20;

/// Prints a line for each missing path and invalid key. An error if there are any.
pub fn check_all(args: &Args, inputs: &Inputs) -> Result<()> {
    let mut keys = UniqueKeys::new(args);
    let mut problems = 0;
    let mut report = |position: &InputPosition, refusal: &ItemRefusal| {
        problems += 1;
        if problems <= SHOWN {
            messages::error(&format!("{position}: {} ({})", refusal.why, refusal.code));
        }
    };
    inputs.visit(&|| args.sorter(), &mut |item: PlannedItem| {
        match &item {
            Err((_, refusal)) if refusal.harmless => {}
            Err((position, refusal)) => report(position, refusal),
            Ok(sample) => {
                let missing = sample.fields.iter().filter_map(|(_, content)| content.check());
                missing.for_each(|refusal| report(&sample.position, &refusal));
                if !inputs.has_unique_keys() {
                    keys.add(&sample.position, &sample.key)?;
                }
            }
        }
        Ok(Flow::Continue(()))
    })?;
    if problems > 0 {
        bail!("{}; nothing was written", counted(problems, "problem"));
    }
    keys.refuse_repeats()
}
