//! Builds the Kubernetes objects of a run: for each slice of the tasks, a ConfigMap with the bundle and the Jobs that run it.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use tarpipe::compression::Compression;
use tarpipe::run::shell;

use crate::shardrun::engine::site_config::{ConfigTable, PodConfig, Quantity, SiteConfig};
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::bundle;

/// Most tasks of an Indexed Job. Kubernetes allows more, but the status of the Job must stay small.
const MAX_TASKS: usize = 10_000;
/// Largest bundle in bytes: a ConfigMap holds 1 MiB, and base64 adds a third.
const MAX_BUNDLE: usize = 700 << 10;
/// Where the ConfigMap is mounted, and its file.
const BUNDLE_FOLDER: &str = "/etc/shardrun";
const BUNDLE_FILE: &str = "bundle.jsonl.gz";
/// Default number of replacements for a lost pod.
const RESTARTS: u32 = 3;
/// Seconds for which finished Jobs are kept, so that `status` can read their results.
const TTL_SECONDS: u32 = 7 * 24 * 3600;
/// Annotation with the number of a pod in its Job.
const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";

/// The minor version of a server 1.x, which decides what it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct ServerVersion(pub u32);

impl ServerVersion {
    /// Parses a version such as `1.29` or `1.20+`.
    pub fn parse(version: &str) -> Option<Self> {
        let minor = version.trim_start_matches('v').strip_prefix("1.")?;
        let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
        minor[..digits].parse().ok().map(ServerVersion)
    }

    /// Whether the server has Indexed Jobs.
    pub fn has_indexed(self) -> bool {
        self >= ServerVersion(21)
    }

    /// Whether a Job can distinguish failures from disruptions.
    fn has_failure_policy(self) -> bool {
        self >= ServerVersion(26)
    }

    /// Whether one index can fail for good while the others continue.
    pub fn has_limit_per_index(self) -> bool {
        self >= ServerVersion(29)
    }
}

/// Consecutive tasks whose bundle fits into one ConfigMap.
pub struct TaskSlice {
    /// First task.
    pub first: usize,
    /// Number of tasks.
    pub tasks: usize,
    bundle: Vec<u8>,
}

/// Divides the tasks of a run into slices.
pub fn slices(pending: &PendingRun) -> Result<Vec<TaskSlice>> {
    let mut slices = Vec::new();
    split(pending, 0, bundle::count_tasks(&pending.todo, pending.settings.chunk), &mut slices)?;
    Ok(slices)
}

fn split(pending: &PendingRun, first: usize, tasks: usize, slices: &mut Vec<TaskSlice>) -> Result<()> {
    if tasks <= MAX_TASKS {
        let bundle = pack(pending, first, tasks)?;
        if bundle.len() <= MAX_BUNDLE || tasks == 1 {
            slices.push(TaskSlice { first, tasks, bundle });
            return Ok(());
        }
    }
    let half = tasks / 2;
    split(pending, first, half, slices)?;
    split(pending, first + half, tasks - half, slices)
}

fn pack(pending: &PendingRun, first: usize, tasks: usize) -> Result<Vec<u8>> {
    let chunk = pending.settings.chunk;
    let items = &pending.todo[first * chunk..((first + tasks) * chunk).min(pending.todo.len())];
    let mut encoder = Compression::gzip().encoder(Vec::new(), 1)?;
    let mut text = Vec::new();
    bundle::write_one(&mut text, &pending.spec, &pending.items, items, chunk)?;
    encoder.write_all(&text)?;
    Ok(encoder.finish()?)
}

/// Builds the objects of a run.
pub struct ManifestBuilder<'a> {
    /// The run.
    pub pending: &'a PendingRun,
    /// The site configuration.
    pub config: &'a SiteConfig,
    /// Version of the server.
    pub server: ServerVersion,
    /// Prefix of all names.
    pub name: String,
    /// Number of pods per Job that may run at once.
    pub parallel: usize,
    /// Whether the Job itself stops after too many failures.
    pub stops: bool,
}

impl ManifestBuilder<'_> {
    /// Name of the ConfigMap and the Job of a slice.
    pub fn name_of(&self, slice: &TaskSlice) -> String {
        format!("{}-{}", self.name, slice.first)
    }

    /// The ConfigMap of a slice.
    pub fn config_map(&self, slice: &TaskSlice) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self.name_of(slice), "labels": self.labels()},
            "binaryData": {BUNDLE_FILE: STANDARD.encode(&slice.bundle)},
        })
    }

    /// The Indexed Job of a slice.
    pub fn indexed_job(&self, slice: &TaskSlice) -> Result<Value> {
        let restarts = self.config.k8s.restarts.unwrap_or(RESTARTS);
        let mut spec = Map::new();
        spec.insert("completionMode".into(), "Indexed".into());
        spec.insert("completions".into(), slice.tasks.into());
        spec.insert("parallelism".into(), self.parallel.min(slice.tasks).into());
        if self.server.has_limit_per_index() {
            spec.insert("backoffLimitPerIndex".into(), restarts.into());
            if let Some(most) = self.pending.spec.limits.max_failures.filter(|_| self.stops) {
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

    /// A Job with a single pod for one task of a slice.
    pub fn plain_job(&self, slice: &TaskSlice, task: usize) -> Result<Value> {
        let mut spec = Map::new();
        spec.insert("backoffLimit".into(), self.config.k8s.restarts.unwrap_or(RESTARTS).into());
        self.job_object(&format!("{}-{task}", self.name_of(slice)), spec, self.template(slice, Some(task))?)
    }

    fn job_object(&self, name: &str, mut spec: Map<String, Value>, template: Value) -> Result<Value> {
        spec.insert("ttlSecondsAfterFinished".into(), TTL_SECONDS.into());
        spec.insert("template".into(), template);
        Ok(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": self.labels(), "annotations": self.annotations()},
            "spec": spec,
        }))
    }

    /// Failed items are final; lost pods are replaced.
    fn failure_policy(&self) -> Value {
        let disrupted =
            json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let failed =
            json!({"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [3]}});
        let rules = if self.server.has_limit_per_index() { vec![failed, disrupted] } else { vec![disrupted] };
        json!({"rules": rules})
    }

    /// Our own labels come last: they find the objects of the run.
    fn labels(&self) -> Value {
        let mut labels = pairs(&self.config.k8s.labels, &self.pending.settings.label);
        labels.insert("app.kubernetes.io/name".into(), "shardrun".into());
        labels.insert("shardrun".into(), self.name.as_str().into());
        Value::Object(labels)
    }

    fn annotations(&self) -> Value {
        Value::Object(pairs(&self.config.k8s.annotations, &self.pending.settings.annotation))
    }

    /// The resources of the container. Memory is a limit too, because a pod that takes more than it requested endangers others.
    fn resources(&self) -> Map<String, Value> {
        let (pods, settings) = (&self.config.k8s, &self.pending.settings);
        let mut resources = pods.resources.clone();
        let mut set = |part: &str, name: &str, amount: &str| {
            let part = resources.entry(part).or_insert_with(|| json!({}));
            part[name] = amount.into();
        };
        if let Some(cpu) = settings.cpu.clone().or_else(|| pods.cpu.as_ref().map(Quantity::to_string)) {
            set("requests", "cpu", &cpu);
        }
        if let Some(memory) = settings.memory.clone().or_else(|| pods.memory.as_ref().map(Quantity::to_string)) {
            set("requests", "memory", &memory);
            set("limits", "memory", &memory);
        }
        resources
    }

    fn template(&self, slice: &TaskSlice, task: Option<usize>) -> Result<Value> {
        let pods = &self.config.k8s;
        let mut metadata = json!({"labels": self.labels(), "annotations": self.annotations()});
        if let Some(task) = task {
            metadata["annotations"][INDEX_ANNOTATION] = task.to_string().into();
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
            "image": image(self.pending, self.config),
            "command": self.command(),
            "env": self.env(task),
            "volumeMounts": mounts(pods)?,
        });
        if !pods.secrets.is_empty() {
            let secrets = pods.secrets.iter().map(|name| json!({"secretRef": {"name": name}}));
            container["envFrom"] = secrets.collect();
        }
        let resources = self.resources();
        if !resources.is_empty() {
            container["resources"] = Value::Object(resources);
        }
        merge(&mut container, &pods.container);
        Ok(container)
    }

    /// The command of the container. Servers that would run a failed task again get --final, so that failures are reported as
    /// results only.
    fn command(&self) -> Vec<String> {
        let worker = &self.config.worker;
        let mut argv = worker.command().unwrap_or_else(|| vec!["shardrun".into()]);
        argv.push("item".into());
        if !self.server.has_limit_per_index() || self.pending.settings.plain_jobs {
            argv.push("--final".into());
        }
        argv.push(format!("{BUNDLE_FOLDER}/{BUNDLE_FILE}"));
        if worker.setup.trim().is_empty() {
            return argv;
        }
        vec!["bash".into(), "-c".into(), format!("{}\nexec {}", worker.setup.trim_end(), shell::join(&argv))]
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

/// The pairs of the site configuration and of the command line, which replaces equal keys.
fn pairs(site: &BTreeMap<String, String>, flags: &[(String, String)]) -> Map<String, Value> {
    let all = site.iter().chain(flags.iter().map(|(key, value)| (key, value)));
    all.map(|(key, value)| (key.clone(), value.as_str().into())).collect()
}

/// The image from --image or the site configuration; empty if neither has one.
pub fn image(pending: &PendingRun, config: &SiteConfig) -> String {
    pending.settings.image.clone().or_else(|| config.k8s.image.clone()).unwrap_or_default()
}

/// The volumes of the site configuration, without the keys that describe their mounts.
fn site_volumes(pods: &PodConfig) -> Vec<Value> {
    let without_mount = |volume: &ConfigTable| {
        let mut volume = volume.clone();
        ["mount", "sub_path", "read_only"].iter().for_each(|key| _ = volume.shift_remove(*key));
        Value::Object(volume)
    };
    pods.volumes.iter().map(without_mount).collect()
}

fn mounts(pods: &PodConfig) -> Result<Vec<Value>> {
    let mut mounts = vec![json!({"name": "shardrun", "mountPath": BUNDLE_FOLDER, "readOnly": true})];
    for volume in &pods.volumes {
        let text = |key: &str| volume.get(key).and_then(|value| value.as_str());
        let name = text("name").context("--config: a volume has no name")?;
        let path = text("mount").with_context(|| format!("--config: volume {name} has no mount"))?;
        let mut mount = json!({"name": name, "mountPath": path});
        if let Some(sub_path) = text("sub_path") {
            mount["subPath"] = sub_path.into();
        }
        if let Some(read_only) = volume.get("read_only").and_then(Value::as_bool) {
            mount["readOnly"] = read_only.into();
        }
        mounts.push(mount);
    }
    Ok(mounts)
}

/// Adds fields to an object; lists are appended to existing ones.
fn merge(object: &mut Value, fields: &ConfigTable) {
    for (name, value) in fields {
        match (object.get_mut(name), value) {
            (Some(Value::Array(there)), Value::Array(more)) => there.extend(more.iter().cloned()),
            (_, value) => object[name] = value.clone(),
        }
    }
}
