//! Ranks: which part of the work is this process's.

use std::str::FromStr;

use anyhow::{Context, Result, bail};

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
        if text == "env" { from_env(&|name| std::env::var(name).ok()) } else { parse(text) }
    }
}

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
    text.parse().with_context(|| format!("'{text}' is no number"))
}

/// TARPIPE_SHARD, then a Slurm array, then a Kubernetes Indexed Job.
fn from_env(get: &dyn Fn(&str) -> Option<String>) -> Result<Rank> {
    if let Some(text) = get("TARPIPE_SHARD") {
        return parse(&text).context("TARPIPE_SHARD");
    }
    if let (Some(id), Some(count)) = (get("SLURM_ARRAY_TASK_ID"), get("SLURM_ARRAY_TASK_COUNT")) {
        let first = number(&get("SLURM_ARRAY_TASK_MIN").unwrap_or("0".into()))?;
        let step = number(&get("SLURM_ARRAY_TASK_STEP").unwrap_or("1".into()))?.max(1);
        let index = number(&id)?.checked_sub(first).context("SLURM_ARRAY_TASK_ID is below SLURM_ARRAY_TASK_MIN")?;
        return new(index / step, number(&count)?).context("SLURM_ARRAY_TASK_ID");
    }
    if let Some(index) = get("JOB_COMPLETION_INDEX") {
        let count = get("JOB_COMPLETIONS")
            .context("JOB_COMPLETION_INDEX without JOB_COMPLETIONS (set it to the Job's completions)")?;
        return new(number(&index)?, number(&count)?).context("JOB_COMPLETION_INDEX");
    }
    bail!("none of TARPIPE_SHARD, SLURM_ARRAY_TASK_ID and JOB_COMPLETION_INDEX is set")
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
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "7"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
        ];
        assert_eq!(env(&slurm).unwrap(), Rank { index: 3, count: 4 });
        assert_eq!(
            env(&[("JOB_COMPLETION_INDEX", "0"), ("JOB_COMPLETIONS", "3")]).unwrap(),
            Rank { index: 0, count: 3 }
        );
        assert!(env(&[("JOB_COMPLETION_INDEX", "0")]).is_err());
        assert!(env(&[]).is_err());
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
