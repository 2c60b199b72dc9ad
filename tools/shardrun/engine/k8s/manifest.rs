//! Kubernetes objects: a ConfigMap with a bundle, and the Jobs that work on it.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::io::Write;
use tarpipe::compression::Compression;

use crate::bundle;
use crate::config::{Config, Pods, Table};
use crate::job::Job;

/// An Indexed Job may have more, but its status must stay small.
const MAX_TASKS: usize = 10_000;
/// A ConfigMap holds 1 MiB, in which base64 takes a third.
const MAX_BUNDLE: usize = 700 << 10;
/// Where pods find their bundle.
const FOLDER: &str = "/etc/shardrun";
const FILE: &str = "bundle.jsonl.gz";
/// How often a pod is made anew after its node was lost.
const RESTARTS: u32 = 3;
/// Seconds that finished Jobs are kept, for `status` to see them.
const KEPT: u32 = 7 * 24 * 3600;
/// What tells a pod its number, and us which pod it is.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// What a server can do, by the minor of its version 1.x.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Server(pub u32);

impl Server {
    /// Takes a version such as `1.29` or `1.20+`.
    pub fn parse(version: &str) -> Option<Self> {
        let minor = version.trim_start_matches('v').strip_prefix("1.")?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        minor[..digits].parse().ok().map(Server)
    }

    /// Whether Jobs can be Indexed.
    pub fn has_indexed(self) -> bool {
        self >= Server(21)
    }

    /// Whether a Job can tell failures from disruptions.
    fn has_failure_policy(self) -> bool {
        self >= Server(26)
    }

    /// Whether an index can fail for good while the others go on.
    pub fn has_limit_per_index(self) -> bool {
        self >= Server(29)
    }
}

/// A slice of the tasks that one ConfigMap holds.
pub struct Slice {
    /// The first task.
    pub first: usize,
    /// How many.
    pub tasks: usize,
    bundle: Vec<u8>,
}

/// Cuts the tasks of a job into slices that fit.
pub fn slices(job: &Job) -> Result<Vec<Slice>> {
    let mut slices = Vec::new();
    cut(job, 0, bundle::count(&job.todo, job.settings.chunk), &mut slices)?;
    Ok(slices)
}

fn cut(job: &Job, first: usize, tasks: usize, slices: &mut Vec<Slice>) -> Result<()> {
    if tasks <= MAX_TASKS {
        let bundle = pack(job, first, tasks)?;
        if bundle.len() <= MAX_BUNDLE || tasks == 1 {
            slices.push(Slice { first, tasks, bundle });
            return Ok(());
        }
    }
    let half = tasks / 2;
    cut(job, first, half, slices)?;
    cut(job, first + half, tasks - half, slices)
}

fn pack(job: &Job, first: usize, tasks: usize) -> Result<Vec<u8>> {
    let chunk = job.settings.chunk;
    let items = &job.todo[first * chunk..((first + tasks) * chunk).min(job.todo.len())];
    let mut encoder = Compression::gzip().encoder(Vec::new(), 1)?;
    let mut text = Vec::new();
    bundle::write_one(&mut text, &job.head, &job.items, items, chunk)?;
    encoder.write_all(&text)?;
    Ok(encoder.finish()?)
}

/// Makes the objects of a job.
pub struct Maker<'a> {
    /// What is run.
    pub job: &'a Job,
    /// The site's file.
    pub config: &'a Config,
    /// What the server can do.
    pub server: Server,
    /// The start of all names.
    pub name: String,
    /// How many pods of a slice may run at once.
    pub parallel: usize,
    /// Whether a Job stops by itself when too many items have failed.
    pub stops: bool,
}

impl Maker<'_> {
    /// The name of a slice's ConfigMap and Job.
    pub fn name_of(&self, slice: &Slice) -> String {
        format!("{}-{}", self.name, slice.first)
    }

    /// The ConfigMap of a slice.
    pub fn config_map(&self, slice: &Slice) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name_of(slice), "labels": self.labels()},
            "binaryData": {FILE: STANDARD.encode(&slice.bundle)},
        })
    }

    /// The Indexed Job of a slice.
    pub fn indexed_job(&self, slice: &Slice) -> Result<Value> {
        let restarts = self.config.k8s.restarts.unwrap_or(RESTARTS);
        let mut spec = Map::new();
        spec.insert("completionMode".into(), "Indexed".into());
        spec.insert("completions".into(), slice.tasks.into());
        spec.insert("parallelism".into(), self.parallel.min(slice.tasks).into());
        if self.server.has_limit_per_index() {
            spec.insert("backoffLimitPerIndex".into(), restarts.into());
            if let Some(most) = self.job.head.limits.max_failures.filter(|_| self.stops) {
                spec.insert("maxFailedIndexes".into(), most.min(slice.tasks as u64).into());
            }
        } else {
            spec.insert("backoffLimit".into(), (u64::from(restarts) * slice.tasks as u64).min(100_000).into());
        }
        if self.server.has_failure_policy() {
            spec.insert("podFailurePolicy".into(), self.failure_policy());
        }
        self.job_object(&self.name_of(slice), spec, self.template(slice, None)?)
    }

    /// A Job of a single pod for one task of a slice.
    pub fn plain_job(&self, slice: &Slice, task: usize) -> Result<Value> {
        let mut spec = Map::new();
        spec.insert("backoffLimit".into(), self.config.k8s.restarts.unwrap_or(RESTARTS).into());
        self.job_object(&format!("{}-{task}", self.name_of(slice)), spec, self.template(slice, Some(task))?)
    }

    fn job_object(&self, name: &str, mut spec: Map<String, Value>, template: Value) -> Result<Value> {
        spec.insert("ttlSecondsAfterFinished".into(), KEPT.into());
        spec.insert("template".into(), template);
        Ok(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": self.labels()},
            "spec": spec,
        }))
    }

    /// Failed items are final, lost pods are not.
    fn failure_policy(&self) -> Value {
        let disrupted =
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let failed =
            json!({"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}});
        let rules = if self.server.has_limit_per_index() { vec![failed, disrupted] } else { vec![disrupted] };
        json!({"rules": rules})
    }

    fn labels(&self) -> Value {
        json!({"app.kubernetes.io/name": "shardrun", "shardrun": self.name})
    }

    fn template(&self, slice: &Slice, task: Option<usize>) -> Result<Value> {
        let pods = &self.config.k8s;
        let mut metadata = json!({"labels": self.labels()});
        if let Some(task) = task {
            metadata["annotations"] = json!({INDEX: task.to_string()});
        }
        let mut volumes = vec![json!({"name": "shardrun", "configMap": {"name": self.name_of(slice)}})];
        volumes.extend(site_volumes(pods));
        let mut spec = json!({
            "restartPolicy": "Never",
            "containers": [self.container(task)?],
            "volumes": volumes,
        });
        if let Some(account) = &pods.service_account {
            spec["serviceAccountName"] = account.as_str().into();
        }
        if let Some(grace) = pods.grace {
            spec["terminationGracePeriodSeconds"] = grace.into();
        }
        merge(&mut spec, &pods.pod);
        Ok(json!({"metadata": metadata, "spec": spec}))
    }

    fn container(&self, task: Option<usize>) -> Result<Value> {
        let pods = &self.config.k8s;
        let mut container = json!({
            "name": "main",
            "image": image(self.job, self.config),
            "command": self.command(),
            "env": self.env(task),
            "volumeMounts": mounts(pods)?,
        });
        if !pods.secrets.is_empty() {
            let secrets = pods.secrets.iter().map(|name| json!({"secretRef": {"name": name}}));
            container["envFrom"] = secrets.collect();
        }
        if !pods.resources.is_empty() {
            container["resources"] = Value::Object(pods.resources.clone());
        }
        merge(&mut container, &pods.container);
        Ok(container)
    }

    /// Where the server would run a failed task again, the failure travels as a result alone.
    fn command(&self) -> Vec<String> {
        let worker = &self.config.worker;
        let program = worker.shardrun.clone().unwrap_or_else(|| "shardrun".into());
        let mut words = vec![program, "item".into()];
        if !self.server.has_limit_per_index() || self.job.settings.plain_jobs {
            words.push("--final".into());
        }
        words.push(format!("{FOLDER}/{FILE}"));
        if worker.setup.trim().is_empty() {
            return words;
        }
        let words: Vec<String> = words.iter().map(|word| tarpipe::run::shell::quote(word)).collect();
        vec!["bash".into(), "-c".into(), format!("{}\nexec {}", worker.setup.trim_end(), words.join(" "))]
    }

    fn env(&self, task: Option<usize>) -> Vec<Value> {
        let variable = |name: &str, value: &str| json!({"name": name, "value": value});
        let mut env = vec![variable("SHARDRUN_MESSAGE", "/dev/termination-log")];
        env.extend(task.map(|task| variable("JOB_COMPLETION_INDEX", &task.to_string())));
        let site = self.config.worker.env.iter().chain(&self.config.k8s.env);
        env.extend(site.map(|(name, value)| variable(name, value)));
        env
    }
}

/// The image that was asked for, empty where none was.
pub fn image(job: &Job, config: &Config) -> String {
    job.settings.image.clone().or_else(|| config.k8s.image.clone()).unwrap_or_default()
}

/// The site's volumes, without what says where they are mounted.
fn site_volumes(pods: &Pods) -> Vec<Value> {
    let without_mount = |volume: &Table| {
        let mut volume = volume.clone();
        ["mount", "sub_path", "read_only"].iter().for_each(|key| _ = volume.shift_remove(*key));
        Value::Object(volume)
    };
    pods.volumes.iter().map(without_mount).collect()
}

fn mounts(pods: &Pods) -> Result<Vec<Value>> {
    let mut mounts = vec![json!({"name": "shardrun", "mountPath": FOLDER, "readOnly": true})];
    for volume in &pods.volumes {
        let word = |key: &str| volume.get(key).and_then(|value| value.as_str());
        let name = word("name").context("--config: a volume without a name")?;
        let path = word("mount").with_context(|| format!("--config: volume {name} has no mount"))?;
        let mut mount = json!({"name": name, "mountPath": path});
        if let Some(sub_path) = word("sub_path") {
            mount["subPath"] = sub_path.into();
        }
        if let Some(read_only) = volume.get("read_only").and_then(Value::as_bool) {
            mount["readOnly"] = read_only.into();
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

/// Puts further fields into an object; lists are added to what is there.
fn merge(object: &mut Value, fields: &Table) {
    for (name, value) in fields {
        match (object.get_mut(name), value) {
            (Some(Value::Array(there)), Value::Array(more)) => there.extend(more.iter().cloned()),
            (_, value) => object[name] = value.clone(),
        }
    }
}
