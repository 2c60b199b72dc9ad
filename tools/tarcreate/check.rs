//! A look at everything before anything is written.

use anyhow::{Result, bail};
use tarpipe::messages;
use tarpipe::tally::counted;

use crate::Args;
use crate::item::{Item, Place, Refusal};
use crate::keys::Keys;
use crate::recipe::{Flow, Recipe};

/// Problems that are described; all are counted.
const SHOWN: u64 = 20;

/// An error, after a line for each problem, unless all paths exist and all keys are good.
pub fn all(args: &Args, recipe: &Recipe) -> Result<()> {
    let mut keys = Keys::new(args);
    let mut problems = 0;
    let mut complain = |place: &Place, refusal: &Refusal| {
        problems += 1;
        if problems <= SHOWN {
            messages::error(&format!("{place}: {} ({})", refusal.why, refusal.code));
        }
    };
    recipe.visit(&|| args.sorter(), &mut |item: Item| {
        match &item {
            Err((_, refusal)) if refusal.harmless => {}
            Err((place, refusal)) => complain(place, refusal),
            Ok(job) => {
                let missing = job.fields.iter().filter_map(|(_, content)| content.look());
                missing.for_each(|refusal| complain(&job.place, &refusal));
                if !recipe.has_unique_keys() {
                    keys.add(&job.place, &job.key)?;
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
