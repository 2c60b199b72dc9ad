//! The site configuration: the files of the site and of the user, then that of --config, in TOML or YAML: flags for sbatch
//! (`batch`) and salloc (`interactive`), the setup of workers (`worker`), and the specification of pods (`k8s`).
//! `slurm-cluster` reads the same files: its sections `spark` and `ray` and its key `interactive.srun` are checked here and
//! not used.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Map, Number, Value, json};
use tarpipe::cli::Usage;

use crate::shardrun::engine::yaml;

/// A section or a part of one, in either format.
pub type ConfigTable = Map<String, Value>;

/// The content of a file; every part is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteConfig {
    /// Flags for sbatch: `partition = "gpu"` is --partition=gpu, `exclusive = true` is --exclusive.
    #[serde(default)]
    pub batch: ConfigTable,
    /// Flags for salloc.
    #[serde(default)]
    pub interactive: ConfigTable,
    /// Setup of workers.
    #[serde(default)]
    pub worker: WorkerConfig,
    /// Specification of pods.
    #[serde(default)]
    pub k8s: PodConfig,
    /// How slurm-cluster starts Spark.
    #[serde(default, rename = "spark")]
    _spark: EngineConfig,
    /// How slurm-cluster starts Ray.
    #[serde(default, rename = "ray")]
    _ray: EngineConfig,
}

/// How slurm-cluster starts an engine.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EngineConfig {
    #[serde(default, rename = "master")]
    _master: ProcessConfig,
    #[serde(default, rename = "worker")]
    _worker: ProcessConfig,
}

/// Arguments of srun and of the program that it starts.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessConfig {
    #[serde(default, rename = "srun")]
    _srun: Vec<Value>,
    #[serde(default, rename = "start")]
    _start: Vec<Value>,
}

/// Keys whose values are lists of arguments, by section; all other keys of these sections are names of flags.
const ARGUMENT_LISTS: [(&str, &[&str]); 2] = [("batch", &["sbatch"]), ("interactive", &["salloc", "srun"])];

/// Setup of workers.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Shell lines to run before a task, such as `module load ffmpeg`.
    #[serde(default)]
    pub setup: String,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Path of shardrun or tarpipe on workers, if it differs from the path here.
    pub shardrun: Option<String>,
}

impl WorkerConfig {
    /// The command that starts shardrun, if its path is configured. A program called tarpipe contains all tools.
    pub fn command(&self) -> Option<Vec<String>> {
        let program = self.shardrun.clone()?;
        let contains_all =
            Path::new(&program).file_name().is_some_and(|name| name.to_string_lossy().starts_with("tarpipe"));
        let tool = contains_all.then(|| "shardrun".to_owned());
        Some([Some(program), tool].into_iter().flatten().collect())
    }
}

/// Specification of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodConfig {
    /// Image; --image overrides it.
    pub image: Option<String>,
    /// Namespace; --namespace overrides it.
    pub namespace: Option<String>,
    /// Service account.
    pub service_account: Option<String>,
    /// Environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secrets whose keys become environment variables.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Volumes of the pod; `mount` is their path in the container.
    #[serde(default)]
    pub volumes: Vec<ConfigTable>,
    /// Resource requests and limits.
    #[serde(default)]
    pub resources: ConfigTable,
    /// CPUs to request; --cpu overrides it.
    pub cpu: Option<Quantity>,
    /// Memory to request, and its limit; --memory overrides it.
    pub memory: Option<Quantity>,
    /// Labels of all objects; --label adds to them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations of Jobs and pods; --annotation adds to them.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Version of the server, if kubectl cannot query it.
    pub version: Option<String>,
    /// Termination grace period in seconds.
    pub grace: Option<u64>,
    /// How often a lost pod is replaced.
    pub restarts: Option<u32>,
    /// Further fields of the pod's spec, as Kubernetes defines them.
    #[serde(default)]
    pub pod: ConfigTable,
    /// Further fields of its container.
    #[serde(default)]
    pub container: ConfigTable,
}

/// An amount as Kubernetes writes it, such as 2, 500m or 4Gi.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a quantity such as 2, 500m or 4Gi")]
pub enum Quantity {
    /// A plain number.
    Number(Number),
    /// A number with a unit.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Number(number) => number.fmt(f),
            Quantity::Text(text) => text.fmt(f),
        }
    }
}

/// The files of the site and of the user, which slurm-cluster reads too.
fn default_files() -> Vec<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let site = variable("TARPIPE_CLUSTER_SITE").unwrap_or_else(|| "/etc/tarpipe/cluster.yaml".into());
    let folder = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| format!("{home}/.config")));
    let files = std::iter::once(site).chain(folder.map(|folder| format!("{folder}/tarpipe/cluster.yaml")));
    files.filter(|file| Path::new(file).exists()).collect()
}

/// The checked content of a file.
fn read_value(file: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(file).map_err(|err| err.to_string())?;
    let value = if file.ends_with(".yaml") || file.ends_with(".yml") {
        SiteConfig::parse_yaml(&text).and_then(SiteConfig::check_lists)?;
        yaml::parse(&text).map_err(|(line, what)| format!("line {line}: {what}"))?
    } else {
        SiteConfig::parse_toml(&text).and_then(SiteConfig::check_lists)?;
        toml::from_str(&text).map_err(|err| err.to_string())?
    };
    Ok(if value.is_null() { json!({}) } else { value })
}

/// Adds the keys of a later file; they replace those of an earlier one.
fn merge(into: &mut Value, later: Value) {
    match (into, later) {
        (Value::Object(into), Value::Object(later)) => {
            later.into_iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, later) => *into = later,
    }
}

impl SiteConfig {
    /// Reads the files of the site and of the user, if there are any, and this one.
    pub fn read(file: Option<&str>) -> Result<Self> {
        let mut merged = json!({});
        for file in default_files().iter().map(String::as_str).chain(file) {
            let value = read_value(file).map_err(|what| Usage(format!("{file}: {}", what.replace('\n', " "))))?;
            merge(&mut merged, value);
        }
        Ok(serde_json::from_value(merged)?)
    }

    /// Refuses a misspelt key of an argument list, which would otherwise be taken for the name of a flag.
    fn check_lists(self) -> Result<Self, String> {
        for (section, known) in ARGUMENT_LISTS {
            let table = if section == "batch" { &self.batch } else { &self.interactive };
            for (key, value) in table {
                let is_known = known.contains(&key.as_str());
                if is_known && !value.is_array() {
                    return Err(format!("{section}.{key}: expected a list of arguments"));
                }
                let is_argument = |value: &Value| value.as_str().is_some_and(|text| text.starts_with('-'));
                if !is_known && value.as_array().is_some_and(|values| values.iter().any(is_argument)) {
                    let names: Vec<String> = known.iter().map(|name| format!("{section}.{name}")).collect();
                    return Err(format!("{section}.{key}: unknown list of arguments; use {}", names.join(" or ")));
                }
            }
        }
        Ok(self)
    }

    /// The error is a line number and a message.
    fn parse_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|err| {
            let line = err.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", err.message())
        })
    }

    fn parse_yaml(text: &str) -> Result<Self, String> {
        match yaml::parse(text).map_err(|(line, what)| format!("line {line}: {what}"))? {
            Value::Null => Ok(SiteConfig::default()),
            value => serde_json::from_value(value.clone()).map_err(|err| explain(&value).unwrap_or(err.to_string())),
        }
    }
}

/// Finds the section and the key that cannot be read, because errors of serde_json do not name them.
fn explain(file: &Value) -> Option<String> {
    let pairs = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let why = |value: Value| serde_json::from_value::<SiteConfig>(value).err();
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

/// The flags of a section for sbatch or salloc. Its list of arguments comes last; that of srun is for slurm-cluster.
pub fn flags(section: &ConfigTable) -> Result<Vec<String>> {
    let (lists, pairs): (Vec<_>, Vec<_>) =
        section.iter().partition(|(name, _)| ARGUMENT_LISTS.iter().any(|(_, known)| known.contains(&name.as_str())));
    let mut flags = Vec::new();
    for (name, value) in pairs {
        let dashed = name.replace('_', "-");
        let flag = if dashed.len() == 1 { format!("-{dashed}") } else { format!("--{dashed}") };
        add(&mut flags, &flag, value).map_err(|what| Usage(format!("--config: {name}: {what}")))?;
    }
    let lists = lists.into_iter().filter(|(name, _)| *name != "srun").filter_map(|(_, values)| values.as_array());
    flags.extend(lists.flatten().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
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
        _ => bail!("the value of a flag must be a string, a number, true, or a list of these"),
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
        for config in [SiteConfig::parse_toml(toml).unwrap(), SiteConfig::parse_yaml(yaml).unwrap()] {
            let mut flags = flags(&config.batch).unwrap();
            flags.sort();
            assert_eq!(
                flags,
                ["--cpus-per-task=4", "--exclusive", "--licenses=a", "--licenses=b", "--partition=gpu", "-px"]
            );
            assert_eq!(config.worker.setup.trim_end(), "module load x");
        }
        assert!(SiteConfig::parse_toml("\n[bacth]\na = 1").unwrap_err().starts_with("line 2: unknown field"));
        for (yaml, what) in [
            ("bacth:\n  a: 1", "unknown field `bacth`"),
            ("worker: {}\nk8s: {pod: {}, volumes: x}", "k8s.volumes: invalid type: string \"x\", expected a sequence"),
            ("batch: 5", "batch: invalid type: integer `5`, expected a map"),
            ("- batch", "invalid type: "),
        ] {
            let error = SiteConfig::parse_yaml(yaml).unwrap_err();
            assert!(error.starts_with(what), "{error}");
        }
        assert!(SiteConfig::parse_yaml("# nothing\n").unwrap().batch.is_empty());
    }

    #[test]
    fn a_file_for_slurm_cluster_is_accepted() {
        let yaml = "batch:\n    sbatch:\n      - --time=4:00:00\n      - -c\n      - 10\ninteractive:\n    salloc:\n      - --x11=all\n    srun:\n      - --overlap\nspark:\n    worker:\n        srun:\n            - --overlap\n        start:\n            - -c\n            - 10\nray:\n    master:\n        srun: [--overlap]\n        #start:\n";
        let config = SiteConfig::parse_yaml(yaml).and_then(SiteConfig::check_lists).unwrap();
        assert_eq!(flags(&config.batch).unwrap(), ["--time=4:00:00", "-c", "10"]);
        assert_eq!(flags(&config.interactive).unwrap(), ["--x11=all"]);
        for (yaml, what) in [
            ("batch: {sbtach: [--time=1]}", "batch.sbtach: unknown list of arguments; use batch.sbatch"),
            ("interactive: {salloc: --x11}", "interactive.salloc: expected a list of arguments"),
            ("spark: {workers: {}}", "spark.workers: unknown field `workers`, expected `master` or `worker`"),
        ] {
            assert_eq!(SiteConfig::parse_yaml(yaml).and_then(SiteConfig::check_lists).unwrap_err(), what);
        }
    }
}
