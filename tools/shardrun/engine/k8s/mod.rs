//! Kubernetes, through kubectl: Indexed Jobs, or a single-pod Job a task on servers that lack them. Results come
//! back as termination messages, so that pods need no volume in common with us.

mod limits;
mod manifest;
mod pods;
mod reasons;

use std::collections::BTreeSet;
use std::fs::File;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tarpipe::messages;

use super::Troubles;
use super::live::stop_if_failed;
use super::submission::{Part, Submission, TaskState, TaskStates};
use crate::ask::{ask, tell};
use crate::bundle;
use crate::config::Config;
use crate::folder::Folder;
use crate::job::Job;
use crate::joblog::{JobLog, Record};
use crate::settings::Engine;
use crate::worker;
use limits::{check, check_limits, counts_failures, is_plain, parallel};
use manifest::{Maker, Server, Slice};
use pods::Pod;

pub use reasons::reasons;

const LIMIT: Duration = Duration::from_secs(60);
/// What is assumed of a server that cannot be asked.
const RECENT: Server = Server(31);
/// Jobs that are created by one call.
const BATCH: usize = 100;

/// Hands all tasks over.
pub fn submit(job: &Job) -> Result<Submission> {
    let config = Config::read(job.settings.config.as_deref())?;
    check(job, &config)?;
    let server = server(&config)?;
    let slices = manifest::slices(job)?;
    check_limits(job, server, slices.len())?;
    let mut submission = Submission::create(job, Engine::K8s)?;
    let context = Context::ask();
    submission.cluster = context.name;
    submission.namespace = namespace(job, &config).or(context.namespace);
    let maker = maker(job, &config, server, &submission.name(&job.head.plan), slices.len());
    for slice in &slices {
        submission.parts.push(Part { id: maker.name_of(slice), first: slice.first, tasks: slice.tasks });
    }
    submission.save()?;
    for slice in &slices {
        create(&submission, vec![maker.config_map(slice)])?;
        match is_plain(job, server) {
            false => create(&submission, vec![maker.indexed_job(slice)?])?,
            true if create_plain(job, &maker, slice, &submission)? => {}
            true => break,
        }
    }
    Ok(submission)
}

/// The manifests of the objects that would be created.
pub fn dry_run(job: &Job) -> Result<String> {
    let config = Config::read(job.settings.config.as_deref())?;
    check(job, &config)?;
    let server = server(&config).unwrap_or(RECENT);
    let slices = manifest::slices(job)?;
    check_limits(job, server, slices.len())?;
    let name = Submission::sketch(job).name(&job.head.plan).to_lowercase();
    let maker = maker(job, &config, server, &name, slices.len());
    let mut documents = Vec::new();
    for slice in &slices {
        documents.push(maker.config_map(slice));
        if is_plain(job, server) {
            (0..slice.tasks).try_for_each(|task| maker.plain_job(slice, task).map(|job| documents.push(job)))?;
        } else {
            documents.push(maker.indexed_job(slice)?);
        }
    }
    let texts: Result<Vec<String>, _> = documents.iter().map(serde_json::to_string_pretty).collect();
    Ok(texts?.join("\n---\n") + "\n")
}

fn namespace(job: &Job, config: &Config) -> Option<String> {
    job.settings.namespace.clone().or_else(|| config.k8s.namespace.clone())
}

/// Where kubectl goes by default. It may go elsewhere tomorrow, and a submission stays where it is.
#[derive(Default)]
struct Context {
    name: Option<String>,
    namespace: Option<String>,
}

impl Context {
    /// Nothing where there is no file with contexts, as inside a cluster.
    fn ask() -> Self {
        let answer = ask(&["kubectl", "config", "view", "--minify", "-o", "json"], LIMIT).unwrap_or_default();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let namespace = text(&answer["contexts"][0]["context"]["namespace"]);
        Context { name: text(&answer["current-context"]), namespace }
    }
}

fn maker<'a>(job: &'a Job, config: &'a Config, server: Server, name: &str, slices: usize) -> Maker<'a> {
    // Several Jobs share what may run at once.
    let parallel = (parallel(job) / slices.max(1)).max(1);
    Maker { job, config, server, name: name.to_owned(), parallel, stops: counts_failures(job, server, slices) }
}

/// What the server can do; the site's file goes before it.
fn server(config: &Config) -> Result<Server> {
    if let Some(version) = &config.k8s.version {
        return Server::parse(version).with_context(|| format!("--config: '{version}' is no version of Kubernetes"));
    }
    let answer: Value = serde_json::from_str(&ask(&["kubectl", "version", "-o", "json"], LIMIT)?)?;
    let word = |key: &str| answer["serverVersion"][key].as_str().unwrap_or_default().to_owned();
    let version = format!("{}.{}", word("major"), word("minor"));
    Server::parse(&version).with_context(|| format!("kubectl: the server does not say its version ({version})"))
}

/// The words of a call of kubectl.
fn kubectl<'a>(submission: &'a Submission, words: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["kubectl"];
    if let Some(context) = &submission.cluster {
        all.extend(["--context", context]);
    }
    if let Some(namespace) = &submission.namespace {
        all.extend(["-n", namespace]);
    }
    all.extend(words);
    all
}

/// Creates objects. What exists already is a stranger's, and an error. Unlike `kubectl apply`, this does not repeat each
/// object in an annotation, which has less room than a ConfigMap.
fn create(submission: &Submission, objects: Vec<Value>) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let name = submission.path.join("manifest.json");
    std::fs::write(&name, serde_json::to_string(&list)?).with_context(|| name.display().to_string())?;
    tell(&kubectl(submission, &["create", "--validate=false", "-f", "-"]), &list.to_string(), LIMIT).map(drop)
}

/// Makes a Job for each task: all at once, or as many as may run, whenever some have ended. False when too many items
/// have failed meanwhile, and the run was ended.
fn create_plain(job: &Job, maker: &Maker<'_>, slice: &Slice, submission: &Submission) -> Result<bool> {
    let mut troubles = Troubles::default();
    let mut next = 0;
    while next < slice.tasks {
        let room = match job.settings.wait {
            false => BATCH,
            true => parallel(job).saturating_sub(collect(&job.folder, submission)?),
        };
        let until = (next + room.min(BATCH)).min(slice.tasks);
        if until > next {
            let jobs = (next..until).map(|task| maker.plain_job(slice, task)).collect::<Result<_>>()?;
            create(submission, jobs)?;
            next = until;
        } else {
            std::thread::sleep(Duration::from_secs(1));
            troubles.tell(submission);
        }
        if stop_if_failed(job, submission)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What selects the objects of a submission.
fn selector(submission: &Submission) -> String {
    let id = submission.parts.first().map_or("", |part| part.id.as_str());
    format!("shardrun={}", id.rsplit_once('-').map_or(id, |(name, _)| name))
}

/// What the server shows of a submission.
struct Seen {
    /// Its pods, as far as they are still there.
    pods: Vec<Pod>,
    /// How many of its Jobs have not ended; of Jobs that are gone, how many of their pods.
    active: usize,
    /// How many Jobs there are.
    jobs: usize,
    /// The tasks that it calls completed, where that means that all of their items are done.
    completed: Vec<usize>,
}

/// The objects that `kubectl get` lists.
fn get(submission: &Submission, words: &[&str]) -> Result<Vec<Value>> {
    let words = [&["get"], words, &["-o", "json"]].concat();
    let answer = ask(&kubectl(submission, &words), LIMIT)?;
    let mut answer: Value = serde_json::from_str(&answer).context("kubectl: the answer is not JSON")?;
    Ok(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

fn look(submission: &Submission) -> Result<Seen> {
    let selector = selector(submission);
    // Jobs are listed first: the pods of one that has ended have ended too.
    let objects = get(submission, &["jobs,pods", "-l", &selector])?;
    let of_kind = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let pods: Vec<Pod> = of_kind("Pod").filter_map(|pod| Pod::parse(pod, submission)).collect();
    let jobs = of_kind("Job").count();
    let active = match jobs {
        0 => pods.iter().filter(|pod| !pod.has_ended()).count(),
        _ => of_kind("Job").filter(|job| !has_ended(job)).count(),
    };
    let completed = of_kind("Job").flat_map(|job| completed(job, submission)).collect();
    Ok(Seen { pods, active, jobs, completed })
}

/// Tasks of an Indexed Job that have succeeded. Without a limit for each index, pods succeed that have failed items.
fn completed(job: &Value, submission: &Submission) -> Vec<usize> {
    if job["spec"]["backoffLimitPerIndex"].is_null() {
        return Vec::new();
    }
    let first = submission.parts.iter().find(|part| job["metadata"]["name"] == part.id.as_str()).map(|part| part.first);
    let indexes = job["status"]["completedIndexes"].as_str().unwrap_or_default();
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<usize>().ok()?..=high.parse().ok()?)
    };
    let indexes = indexes.split(',').filter_map(range).flatten();
    indexes.filter_map(|index| Some(first? + index)).collect()
}

fn has_ended(job: &Value) -> bool {
    let is_end = |condition: &Value| {
        matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True"
    };
    job["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is_end))
}

/// What Kubernetes knows of the tasks.
pub fn states(submission: &Submission) -> TaskStates {
    let mut states = TaskStates::new();
    let Ok(Seen { pods, active, .. }) = look(submission) else { return states };
    for pod in &pods {
        let state = match pod.phase.as_str() {
            "Running" => TaskState::Running,
            "Pending" => TaskState::Waiting,
            // The Job makes another, or says that it will not.
            "Failed" if active > 0 => TaskState::Waiting,
            _ => TaskState::Ended(pod.reason.to_ascii_lowercase()),
        };
        let is_better = states.get(&pod.task).is_none_or(|known| *known != TaskState::Running);
        if is_better {
            states.insert(pod.task, state);
        }
    }
    if active > 0 && states.is_empty() {
        states.insert(usize::MAX, TaskState::Waiting); // the Jobs are there, their pods not yet
    }
    states
}

/// Takes the results of pods that have ended into the run folder, each once; how many Jobs have not ended.
/// Whoever waits asks this all the time: a pod goes with its node, and takes its results along. What only
/// the Job remembers is done without a word on how.
pub fn collect(folder: &Folder, submission: &Submission) -> Result<usize> {
    // Several may wait for the same run; each result is taken once.
    let turn = File::create(submission.path.join("collecting")).and_then(|file| file.lock().map(|()| file));
    let _turn = turn.with_context(|| submission.path.display().to_string())?;
    let seen = look(submission)?;
    let file = submission.path.join("collected");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let mut known: BTreeSet<String> = known.lines().map(str::to_owned).collect();
    let before = known.len();
    let mut log = JobLog::open(folder)?;
    for pod in seen.pods.iter().filter(|pod| pod.has_ended()) {
        if !known.contains(&pod.uid) {
            for record in pod.records(|| ask(&kubectl(submission, &["logs", &pod.name]), LIMIT))? {
                worker::keep(folder, &mut log, &record)?;
            }
            known.insert(pod.uid.clone());
            if pod.phase == "Succeeded" {
                known.insert(marker(pod.task));
            }
        }
    }
    let gone: BTreeSet<usize> = seen.completed.into_iter().filter(|&task| known.insert(marker(task))).collect();
    if !gone.is_empty() {
        let mut records = Vec::new();
        bundle::each(&submission.path, |task, items| {
            let is_gone = gone.contains(&task);
            records.extend(items.iter().filter(|_| is_gone).map(|(index, value)| Record::done(*index, value)));
        })?;
        records.iter().try_for_each(|record| log.append(record))?;
    }
    if known.len() > before {
        let lines: Vec<String> = known.into_iter().collect();
        tarpipe::sink::write_text(&file.to_string_lossy(), &(lines.join("\n") + "\n"))?;
    }
    Ok(seen.active)
}

/// What stands in the list of what was collected for a task that has succeeded.
fn marker(task: usize) -> String {
    format!("task {task}")
}

/// What the pod of a task said last.
pub fn logs(submission: &Submission, task: usize) -> Option<String> {
    let pod = look(submission).ok()?.pods.into_iter().rfind(|pod| pod.task == task)?;
    ask(&kubectl(submission, &["logs", &pod.name]), LIMIT).ok()
}

/// Deletes the Jobs, after what they have done is known.
pub fn cancel(folder: &Folder, submission: &Submission) -> Result<()> {
    if let Err(err) = collect(folder, submission) {
        messages::notice(&format!("results of finished pods may be lost: {err:#}"));
    }
    let selector = selector(submission);
    ask(&kubectl(submission, &["delete", "jobs,configmaps", "-l", &selector, "--wait=false"]), LIMIT).map(drop)
}

/// What is left of a submission that was cancelled: Jobs, and pods that are being ended. Empty when nothing is.
pub fn left(submission: &Submission) -> Result<String> {
    let seen = look(submission)?;
    let pods: Vec<&str> = seen.pods.iter().filter(|pod| !pod.has_ended()).map(|pod| pod.name.as_str()).collect();
    Ok(if seen.jobs > 0 { submission.ids() } else { pods.join(",") })
}
