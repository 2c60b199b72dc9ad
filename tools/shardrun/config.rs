//! The site's file: flags for sbatch (`batch`) and salloc (`interactive`), what every worker needs (`worker`),
//! and what pods are made of (`k8s`).

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tarpipe::cli::Usage;

use crate::yaml;

/// A section, or a part of one, whatever the file's format.
pub type Table = Map<String, Value>;

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
        let text = std::fs::read_to_string(file).map_err(|err| Usage(format!("{file}: {err}")))?;
        let is_yaml = file.ends_with(".yaml") || file.ends_with(".yml");
        let parsed = if is_yaml { Config::parse_yaml(&text) } else { Config::parse_toml(&text) };
        parsed.map_err(|what| anyhow!(Usage(format!("{file}: {}", what.replace('\n', " ")))))
    }

    /// An error says where, if it is known, and what is wrong.
    fn parse_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|err| {
            let line = err.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", err.message())
        })
    }

    fn parse_yaml(text: &str) -> Result<Self, String> {
        match yaml::parse(text).map_err(|(line, what)| format!("line {line}: {what}"))? {
            Value::Null => Ok(Config::default()),
            value => serde_json::from_value(value.clone()).map_err(|err| blame(&value).unwrap_or(err.to_string())),
        }
    }
}

/// Which key of which section cannot be taken, and why.
fn blame(file: &Value) -> Option<String> {
    let pairs = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let why = |value: Value| serde_json::from_value::<Config>(value).err();
    for (section, value) in pairs(file) {
        if let Some(unknown) = why(json!({&section: {}})) {
            return Some(unknown.to_string());
        }
        for (key, value) in pairs(&value) {
            if let Some(why) = why(json!({&section: {&key: value}})) {
                return Some(format!("{section}.{key}: {why}"));
            }
        }
        if let Some(why) = why(json!({&section: value})) {
            return Some(format!("{section}: {why}"));
        }
    }
    None
}

/// A section as flags.
pub fn flags(section: &Table) -> Result<Vec<String>> {
    let mut flags = Vec::new();
    for (name, value) in section {
        let dashed = name.replace('_', "-");
        let flag = if dashed.len() == 1 { format!("-{dashed}") } else { format!("--{dashed}") };
        add(&mut flags, &flag, value).map_err(|what| Usage(format!("--config: {name}: {what}")))?;
    }
    Ok(flags)
}

fn add(flags: &mut Vec<String>, flag: &str, value: &Value) -> Result<()> {
    let with = |text: String| if flag.len() == 2 { format!("{flag}{text}") } else { format!("{flag}={text}") };
    match value {
        Value::Bool(true) => flags.push(flag.to_owned()),
        Value::Bool(false) => {}
        Value::String(text) => flags.push(with(text.clone())),
        Value::Number(number) => flags.push(with(number.to_string())),
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
        let toml = "[batch]\npartition = 'gpu'\nexclusive = true\nx11 = false\ncpus_per_task = 4\np = 'x'\nlicenses = ['a', 'b']\n[worker]\nsetup = 'module load x'";
        let yaml = "batch: {partition: gpu, exclusive: true, x11: false, cpus_per_task: 4, p: x, licenses: [a, b]}\nworker:\n  setup: |\n    module load x\n";
        for config in [Config::parse_toml(toml).unwrap(), Config::parse_yaml(yaml).unwrap()] {
            let mut flags = flags(&config.batch).unwrap();
            flags.sort();
            assert_eq!(
                flags,
                ["--cpus-per-task=4", "--exclusive", "--licenses=a", "--licenses=b", "--partition=gpu", "-px"]
            );
            assert_eq!(config.worker.setup.trim_end(), "module load x");
        }
        assert!(Config::parse_toml("\n[bacth]\na = 1").unwrap_err().starts_with("line 2: unknown field"));
        for (yaml, what) in [
            ("bacth:\n  a: 1", "unknown field `bacth`"),
            ("worker: {}\nk8s: {pod: {}, volumes: x}", "k8s.volumes: invalid type: string \"x\", expected a sequence"),
            ("batch: 5", "batch: invalid type: integer `5`, expected a map"),
            ("- batch", "invalid type: "),
        ] {
            let told = Config::parse_yaml(yaml).unwrap_err();
            assert!(told.starts_with(what), "{told}");
        }
        assert!(Config::parse_yaml("# nothing\n").unwrap().batch.is_empty());
    }
}
