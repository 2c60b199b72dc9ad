//! `--shard I/N`: the part of the work that belongs to this process when N
//! processes share it.
//!
//! Parts are interleaved, not contiguous: part I has the positions I, I+N, I+2N
//! …, so that they are of equal size even if the number of items is unknown.
//! The parts of all I are disjoint and together complete.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

/// Part `index` of `count`, counted from 0. `index < count` holds for every
/// value that was parsed.
///
/// ```
/// use tarpipe::value::partition::Partition;
///
/// let part: Partition = "1/3".parse()?;
/// assert_eq!((0..9).filter(|&at| part.has(at)).collect::<Vec<u64>>(), [1, 4, 7]);
/// # anyhow::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Which part this is, from 0.
    pub index: u64,
    /// The number of parts.
    pub count: u64,
}

impl Partition {
    /// Returns true if the item at `position` (from 0) belongs to this part.
    pub fn has(self, position: u64) -> bool {
        position % self.count == self.index
    }
}

/// Parses `I/N`. The value `env` is replaced by what the environment says, in
/// this order: `TARPIPE_SHARD=I/N`, a Slurm array task, an index of a
/// Kubernetes Indexed Job.
///
/// # Errors
///
/// A malformed text, `I >= N`, or an environment that does not say how many
/// parts there are. The message says which variable to set.
impl FromStr for Partition {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = if text == "env" { from_env(&|name| std::env::var(name).ok()) } else { parse(text) };
        // clap shows only the outermost context.
        part.map_err(|err| anyhow!("{err:#}"))
    }
}

/// Looks up an environment variable; replaced by a fixed table in tests.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

fn parse(text: &str) -> Result<Partition> {
    let (index, count) = text.split_once('/').context("not of the form I/N (such as 0/8) or env")?;
    new(number(index)?, number(count)?)
}

fn new(index: u64, count: u64) -> Result<Partition> {
    if index >= count {
        bail!("part {index} of {count}: parts are counted from 0");
    }
    Ok(Partition { index, count })
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("'{text}' is not a number"))
}

/// What to do if the environment gives the index of this part, but not the
/// number of parts.
const HINT: &str = "set TARPIPE_SHARD=I/N, counted from 0, or use --shard I/N";

/// Consults TARPIPE_SHARD, then a Slurm array, then a Kubernetes Indexed Job.
fn from_env(get: Variables) -> Result<Partition> {
    if let Some(text) = get("TARPIPE_SHARD") {
        return parse(&text).context("TARPIPE_SHARD");
    }
    if let Some(id) = get("SLURM_ARRAY_TASK_ID") {
        return of_array(&id, get).context("SLURM_ARRAY_TASK_ID");
    }
    if let Some(index) = get("JOB_COMPLETION_INDEX") {
        let count = get("JOB_COMPLETIONS").with_context(|| {
            format!("JOB_COMPLETION_INDEX without JOB_COMPLETIONS: set it to the completions of the Job, or {HINT}")
        })?;
        return new(number(&index)?, number(&count)?).context("JOB_COMPLETION_INDEX");
    }
    bail!("none of TARPIPE_SHARD, SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX is set")
}

/// The part of a task in a Slurm array. The number of parts is only taken from
/// an array without gaps that begins at 0 or 1. Any other array may be a rerun
/// of some tasks of a larger one, and a count taken from it would silently
/// select different data.
fn of_array(id: &str, get: Variables) -> Result<Partition> {
    let variable = |name: &str| {
        let text = get(name).with_context(|| format!("{name} is not set: {HINT}"))?;
        number(&text).with_context(|| name.to_owned())
    };
    let (first, last) = (variable("SLURM_ARRAY_TASK_MIN")?, variable("SLURM_ARRAY_TASK_MAX")?);
    let count = variable("SLURM_ARRAY_TASK_COUNT")?;
    if first > 1 || last.checked_sub(first).and_then(|span| span.checked_add(1)) != Some(count) {
        bail!(
            "an array of {count} tasks from {first} to {last} does not tell how many parts there are \
             (only 0 to N-1 and 1 to N do): {HINT}"
        );
    }
    let index = number(id)?.checked_sub(first).context("below SLURM_ARRAY_TASK_MIN")?;
    new(index, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Result<Partition> {
        from_env(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn the_environment_of_each_engine_is_understood() {
        assert_eq!(env(&[("TARPIPE_SHARD", "2/5")]).unwrap(), Partition { index: 2, count: 5 });
        assert_eq!(array("7", "0", "7", "8").unwrap(), Partition { index: 7, count: 8 });
        assert_eq!(array("1", "1", "8", "8").unwrap(), Partition { index: 0, count: 8 });
        assert_eq!(
            env(&[("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "3")]).unwrap(),
            Partition { index: 0, count: 3 }
        );
        assert!(env(&[("JOB_COMPLETION_INDEX", "0")]).is_err());
        assert!(env(&[]).is_err());
    }

    /// A Slurm task of this number in an array from `first` to `last`.
    fn array(id: &str, first: &str, last: &str, count: &str) -> Result<Partition> {
        env(&[
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_MIN", first),
            ("SLURM_ARRAY_TASK_MAX", last),
            ("SLURM_ARRAY_TASK_COUNT", count),
        ])
    }

    #[test]
    fn an_array_that_may_be_part_of_a_larger_one_is_refused() {
        // --array=3,5; 0,5; 5; 2-9; 1-7:2; and numbers that Slurm never sets.
        for [id, first, last, count] in [
            ["3", "3", "5", "2"],
            ["5", "0", "5", "2"],
            ["5", "5", "5", "1"],
            ["2", "2", "9", "8"],
            ["7", "1", "7", "4"],
            ["1", "1", "0", "0"],
            ["0", "0", "18446744073709551615", "0"],
        ] {
            let message = format!("{:#}", array(id, first, last, count).unwrap_err());
            assert!(message.contains("does not tell how many parts there are"), "{message}");
            assert!(message.contains("set TARPIPE_SHARD=I/N"), "{message}");
        }
        let message = format!("{:#}", env(&[("SLURM_ARRAY_TASK_ID", "0")]).unwrap_err());
        assert!(message.contains("SLURM_ARRAY_TASK_MIN is not set: set TARPIPE_SHARD=I/N"), "{message}");
    }

    #[test]
    fn parts_together_are_the_whole_and_never_overlap() {
        for position in 0..20 {
            assert_eq!((0..3).filter(|&index| Partition { index, count: 3 }.has(position)).count(), 1);
        }
        assert!("3/3".parse::<Partition>().is_err());
        assert!("0/0".parse::<Partition>().is_err());
        assert!("1".parse::<Partition>().is_err());
    }
}
