//! The site's file: flags for sbatch (`batch`) and salloc (`interactive`), what every worker needs (`worker`),
//! and what pods are made of (`k8s`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use toml::{Table, Value};

/// What the file says; all of it may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Flags of sbatch: `partition = "gpu"` is --partition=gpu, `exclusive = true` is --exclusive.
    #[serde(default)]
    pub batch: Table,
    /// Flags of salloc.
    #[serde(default)]
    pub interactive: Table,
    /// What a task needs before it runs.
    #[serde(default)]
    pub worker: Worker,
    /// What a pod is made of.
    #[serde(default)]
    pub k8s: Pods,
}

/// How a worker is made ready.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// Shell lines before a task, such as `module load ffmpeg`.
    #[serde(default)]
    pub setup: String,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where shardrun is on workers, if not where it is here.
    pub shardrun: Option<String>,
}

/// What pods are made of.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pods {
    /// The image; --image goes before it.
    pub image: Option<String>,
    /// The namespace; --namespace goes before it.
    pub namespace: Option<String>,
    /// The service account.
    pub service_account: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secrets whose keys become environment variables.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Volumes of the pod, with `mount` for their path in the container.
    #[serde(default)]
    pub volumes: Vec<Table>,
    /// Requests and limits.
    #[serde(default)]
    pub resources: Table,
    /// The version of the server, where it cannot be asked.
    pub version: Option<String>,
    /// How many seconds a pod has to stop.
    pub grace: Option<u64>,
    /// How often a pod that was lost is made anew.
    pub restarts: Option<u32>,
    /// Further fields of the pod's spec, in Kubernetes' own words.
    #[serde(default)]
    pub pod: Table,
    /// Further fields of its container.
    #[serde(default)]
    pub container: Table,
}

impl Config {
    /// Reads the file; without one everything is empty.
    pub fn read(file: Option<&str>) -> Result<Self> {
        let Some(file) = file else { return Ok(Config::default()) };
        let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
        toml::from_str(&text).map_err(|err| {
            let line = err.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            anyhow::anyhow!("{file}: line {line}: {}", err.message().replace('\n', " "))
        })
    }
}

/// A section as flags, in the order of their names.
pub fn flags(section: &Table) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    for (name, value) in section {
        let dashed = name.replace('_', "-");
        let flag = if dashed.len() == 1 { format!("-{dashed}") } else { format!("--{dashed}") };
        add(&mut flags, &flag, value).with_context(|| format!("--config: {name}"))?;
    }
    Ok(flags)
}

fn add(flags: &mut Vec<String>, flag: &str, value: &Value) -> Result<()> {
    let with = |text: String| if flag.len() == 2 { format!("{flag}{text}") } else { format!("{flag}={text}") };
    match value {
        Value::Boolean(true) => flags.push(flag.to_owned()),
        Value::Boolean(false) => {}
        Value::String(text) => flags.push(with(text.clone())),
        Value::Integer(number) => flags.push(with(number.to_string())),
        Value::Float(number) => flags.push(with(number.to_string())),
        Value::Array(values) => values.iter().try_for_each(|value| add(flags, flag, value))?,
        _ => bail!("a flag's value is a text, a number, true, or a list of these"),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_become_flags() {
        let config: Config = toml::from_str(
            "[batch]\npartition = 'gpu'\nexclusive = true\nx11 = false\ncpus_per_task = 4\np = 'x'\nlicenses = ['a', 'b']\n[worker]\nsetup = 'module load x'",
        )
        .unwrap();
        let mut flags = flags(&config.batch).unwrap();
        flags.sort();
        assert_eq!(
            flags,
            ["--cpus-per-task=4", "--exclusive", "--licenses=a", "--licenses=b", "--partition=gpu", "-px"]
        );
        assert_eq!(config.worker.setup, "module load x");
        assert!(toml::from_str::<Config>("[bacth]\na = 1").is_err());
    }
}
