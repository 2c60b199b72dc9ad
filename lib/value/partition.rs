//! Ranks: which part of the work is this process's.

use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};

/// `--shard I/N`: every N-th piece of work, from the I-th on, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Which part.
    pub index: u64,
    /// Of how many.
    pub count: u64,
}

impl Rank {
    /// Whether the piece of work at `position` is ours.
    pub fn has(self, position: u64) -> bool {
        position % self.count == self.index
    }
}

/// `I/N`, or `env` for what the environment says.
impl FromStr for Rank {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let rank = if text == "env" { from_env(&|name| std::env::var(name).ok()) } else { parse(text) };
        // The command line shows the outermost context alone.
        rank.map_err(|err| anyhow!("{err:#}"))
    }
}

/// Looks up an environment variable.
type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

fn parse(text: &str) -> Result<Rank> {
    let (index, count) = text.split_once('/').context("not of the form I/N (such as 0/8) or env")?;
    new(number(index)?, number(count)?)
}

fn new(index: u64, count: u64) -> Result<Rank> {
    if index >= count {
        bail!("part {index} of {count}: parts are counted from 0");
    }
    Ok(Rank { index, count })
}

fn number(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("'{text}' is not a number"))
}

/// What to do where the environment names this part, but not of how many.
const HINT: &str = "set TARPIPE_SHARD=I/N, counted from 0, or use --shard I/N";

/// TARPIPE_SHARD, then a Slurm array, then a Kubernetes Indexed Job.
fn from_env(get: Variables) -> Result<Rank> {
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

/// The part of a task in a Slurm array. Only an array without gaps that begins at 0 or 1 tells how many parts there are:
/// any other may repeat some parts of a larger job, and a count taken from it would silently select other data.
fn of_array(id: &str, get: Variables) -> Result<Rank> {
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

    fn env(pairs: &[(&str, &str)]) -> Result<Rank> {
        from_env(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned()))
    }

    #[test]
    fn the_environment_of_each_engine_is_understood() {
        assert_eq!(env(&[("TARPIPE_SHARD", "2/5")]).unwrap(), Rank { index: 2, count: 5 });
        assert_eq!(array("7", "0", "7", "8").unwrap(), Rank { index: 7, count: 8 });
        assert_eq!(array("1", "1", "8", "8").unwrap(), Rank { index: 0, count: 8 });
        assert_eq!(
            env(&[("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "3")]).unwrap(),
            Rank { index: 0, count: 3 }
        );
        assert!(env(&[("JOB_COMPLETION_INDEX", "0")]).is_err());
        assert!(env(&[]).is_err());
    }

    /// A Slurm task of this number in an array from `first` to `last`.
    fn array(id: &str, first: &str, last: &str, count: &str) -> Result<Rank> {
        env(&[
            ("SLURM_ARRAY_TASK_ID", id),
            ("SLURM_ARRAY_TASK_MIN", first),
            ("SLURM_ARRAY_TASK_MAX", last),
            ("SLURM_ARRAY_TASK_COUNT", count),
        ])
    }

    #[test]
    fn an_array_that_may_be_a_part_of_a_larger_one_is_refused() {
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
            assert_eq!((0..3).filter(|&index| Rank { index, count: 3 }.has(position)).count(), 1);
        }
        assert!("3/3".parse::<Rank>().is_err());
        assert!("0/0".parse::<Rank>().is_err());
        assert!("1".parse::<Rank>().is_err());
    }
}
