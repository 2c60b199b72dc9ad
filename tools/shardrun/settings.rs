//! How a run is made: the engine and its flags. Kept with the run, so that a retry can do the same.

use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tarpipe::cli::Usage;
use tarpipe::tally::MaxFailures;
use tarpipe::value::duration;

use crate::item::Limits;

/// What runs the items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
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

impl Engine {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Local => "local",
            Engine::Slurm => "slurm",
            Engine::K8s => "k8s",
            Engine::Spark => "spark",
            Engine::Ray => "ray",
        }
    }
}

/// The flags that may change from one time to the next.
#[derive(Clone, Debug, Default, Serialize, Deserialize, clap::Args)]
pub struct Settings {
    /// What runs the items
    #[arg(long, value_name = "ENGINE", default_value = "local")]
    pub on: Engine,

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
    #[arg(long, value_name = "FILE")]
    pub config: Option<String>,

    /// Start after these jobs have succeeded (slurm)
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

    /// Where object stores are, as --endpoint said
    #[arg(skip = endpoint())]
    #[serde(default)]
    pub endpoint: Option<String>,
}

impl Settings {
    /// A flag of one engine does nothing on another: that is a mistake.
    pub fn check(&self) -> Result<()> {
        use Engine::{K8s, Ray, Slurm, Spark};
        let given = [
            ("--after", !self.after.is_empty(), &[Slurm][..]),
            ("--slurm-arg", !self.slurm_arg.is_empty(), &[Slurm]),
            ("--interactive", self.interactive, &[Slurm]),
            ("--image", self.image.is_some(), &[K8s]),
            ("--namespace", self.namespace.is_some(), &[K8s]),
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
                bail!(Usage(format!("{flag} is for --on {}", names.join(" or "))));
            }
        }
        Ok(())
    }

    /// What workers have to know.
    pub fn limits(&self, redo: bool, items: u64) -> Limits {
        Limits {
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

/// The address of object stores that this process was given.
fn endpoint() -> Option<String> {
    #[cfg(feature = "stores")]
    return tarpipe::store::endpoint().map(str::to_owned);
    #[cfg(not(feature = "stores"))]
    None
}

/// Asks object stores where the run's command said they are.
pub fn use_endpoint(url: Option<&str>) {
    #[cfg(feature = "stores")]
    if let Some(url) = url {
        tarpipe::store::set_endpoint(url.to_owned());
    }
    #[cfg(not(feature = "stores"))]
    let _ = url;
}

fn parse_chunk(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&chunk| chunk > 0).ok_or_else(|| "not a number from 1 on".into())
}
