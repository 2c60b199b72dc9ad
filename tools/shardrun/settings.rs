//! The engine of a run and its flags. They are stored in the run folder, so that `retry` uses the same ones.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tarpipe::cli::Usage;
use tarpipe::tally::MaxFailures;
use tarpipe::value::{duration, list};

/// The engines that --on accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EngineKind {
    /// This machine
    #[default]
    Local,
    /// A Slurm cluster: job arrays
    Slurm,
    /// Kubernetes: Indexed Jobs, through kubectl
    K8s,
    /// Spark, through pyspark
    Spark,
    /// Ray
    Ray,
}

impl EngineKind {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Local => "local",
            EngineKind::Slurm => "slurm",
            EngineKind::K8s => "k8s",
            EngineKind::Spark => "spark",
            EngineKind::Ray => "ray",
        }
    }
}

/// The flags that may differ each time a run is started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, clap::Args)]
pub struct RunSettings {
    /// Engine that runs the items
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub on: EngineKind,

    /// Run up to N tasks at once [0: as many as there are cores here, 256 on Kubernetes, no limit elsewhere]
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    pub jobs: usize,

    /// Run K items per task, one after another
    ///
    /// Use it for short items on engines that take a second to start a task.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = parse_chunk)]
    pub chunk: usize,

    /// Retry a failed item up to N times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retries: u32,

    /// End an attempt after TIME, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,

    /// Stop starting items after more than N (or P%) failures; fewer do not affect the exit status
    ///
    /// On Kubernetes this needs --wait, except for a single Job on servers from 1.29 on.
    #[arg(long, value_name = "N|P%")]
    pub max_failures: Option<MaxFailures>,

    /// Delay each task by a random time up to TIME, to spread the load
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub jitter: Option<Duration>,

    /// Wait for the end of the run (slurm, k8s; the others always do)
    #[arg(long)]
    pub wait: bool,

    /// Site configuration: a TOML or YAML file with sections batch, interactive, worker and k8s
    ///
    /// Its keys replace those of /etc/tarpipe/cluster.yaml and ~/.config/tarpipe/cluster.yaml, which are read first if they
    /// exist.
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,

    /// Start after these jobs have succeeded (slurm)
    ///
    /// A list, separated by commas or blanks.
    #[arg(long, value_name = "JOBID", value_delimiter = ',')]
    pub after: Vec<String>,

    /// Pass ARG to sbatch or salloc, such as --slurm-arg=--partition=gpu (slurm)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub slurm_arg: Vec<String>,

    /// Run the tasks inside one allocation made by salloc, and wait (slurm)
    #[arg(long)]
    pub interactive: bool,

    /// Image with bash, shardrun and the programs of the pipeline (k8s)
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// Namespace of the Jobs (k8s)
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Request N CPUs per pod, such as 2 or 500m (k8s)
    #[arg(long, value_name = "N")]
    pub cpu: Option<String>,

    /// Request SIZE of memory per pod, such as 4Gi, and limit it to that (k8s)
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,

    /// Add a label to the Jobs, their pods and ConfigMaps, such as kueue.x-k8s.io/queue-name=batch (k8s)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    #[serde(default)]
    pub label: Vec<(String, String)>,

    /// Add an annotation to the Jobs and their pods (k8s)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    #[serde(default)]
    pub annotation: Vec<(String, String)>,

    /// Create one single-pod Job per task, for servers before 1.21 (k8s)
    #[arg(long)]
    pub plain_jobs: bool,

    /// Spark master, such as spark://host:7077, local or yarn (spark)
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,

    /// Ray cluster, such as host:6379 or ray://host:10001; auto finds the one on this machine (ray)
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,

    /// Command that runs the driver, such as 'spark-submit --conf k=v' [default: python3] (spark, ray)
    #[arg(long, value_name = "COMMAND")]
    pub launcher: Option<String>,

    /// Pass ARG to the driver (spark, ray)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub engine_arg: Vec<String>,

    /// Address of the object store, from --endpoint
    #[arg(skip = endpoint())]
    #[serde(default)]
    pub endpoint: Option<String>,
}

/// The settings that workers need, as the first line of a bundle holds them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunLimits {
    /// Attempts after the first.
    pub retries: u32,
    /// Time limit of an attempt, in seconds.
    pub timeout: Option<f64>,
    /// Longest random delay of a task, in seconds.
    pub jitter: Option<f64>,
    /// Run items again whose output exists.
    pub redo: bool,
    /// Stop the run after more failed items than this.
    pub max_failures: Option<u64>,
    /// Address of the object store, if it is not the vendor's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

impl RunSettings {
    /// The dependency on the jobs of --after, as Slurm writes it.
    pub fn afterok(&self) -> Option<String> {
        let jobs: Vec<&str> = self.after.iter().flat_map(|text| list::items(text)).collect();
        (!jobs.is_empty()).then(|| format!("afterok:{}", jobs.join(":")))
    }

    /// Refuses flags of one engine that are given for another, which would ignore them.
    pub fn check(&self) -> Result<()> {
        use EngineKind::{K8s, Ray, Slurm, Spark};
        let given = [
            ("--after", !self.after.is_empty(), &[Slurm][..]),
            ("--slurm-arg", !self.slurm_arg.is_empty(), &[Slurm]),
            ("--interactive", self.interactive, &[Slurm]),
            ("--image", self.image.is_some(), &[K8s]),
            ("--namespace", self.namespace.is_some(), &[K8s]),
            ("--cpu", self.cpu.is_some(), &[K8s]),
            ("--memory", self.memory.is_some(), &[K8s]),
            ("--label", !self.label.is_empty(), &[K8s]),
            ("--annotation", !self.annotation.is_empty(), &[K8s]),
            ("--plain-jobs", self.plain_jobs, &[K8s]),
            ("--config", self.config.is_some(), &[Slurm, K8s]),
            ("--master", self.master.is_some(), &[Spark]),
            ("--address", self.address.is_some(), &[Ray]),
            ("--launcher", self.launcher.is_some(), &[Spark, Ray]),
            ("--engine-arg", !self.engine_arg.is_empty(), &[Spark, Ray]),
        ];
        for (flag, is_given, engines) in given {
            if is_given && !engines.contains(&self.on) {
                let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
                bail!(Usage(format!("{flag} requires --on {}", names.join(" or "))));
            }
        }
        Ok(())
    }

    /// The settings that workers need, for a run of this many items.
    pub fn limits(&self, redo: bool, items: u64) -> RunLimits {
        RunLimits {
            retries: self.retries,
            timeout: self.timeout.map(|time| time.as_secs_f64()),
            jitter: self.jitter.map(|time| time.as_secs_f64()),
            redo,
            endpoint: self.endpoint.clone(),
            max_failures: self.max_failures.map(|most| match most {
                MaxFailures::Count(most) => most,
                MaxFailures::Percent(percent) => (items as f64 * percent / 100.0) as u64,
            }),
        }
    }
}

/// The address that this process was given by --endpoint.
fn endpoint() -> Option<String> {
    #[cfg(feature = "stores")]
    return tarpipe::store::endpoint().map(str::to_owned);
    #[cfg(not(feature = "stores"))]
    None
}

/// Sets the address of the object store to the one that a run was started with.
pub fn use_endpoint(url: Option<&str>) {
    #[cfg(feature = "stores")]
    if let Some(url) = url {
        tarpipe::store::set_endpoint(url.to_owned());
    }
    #[cfg(not(feature = "stores"))]
    let _ = url;
}

fn parse_chunk(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&chunk| chunk > 0).ok_or_else(|| "not a positive number".into())
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
