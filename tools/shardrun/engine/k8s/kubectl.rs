//! Calls of kubectl, and the objects of a submission that it lists.

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pods::{Pod, PodObject};
use crate::shardrun::engine::external::query;
use crate::shardrun::engine::submission::Submission;

/// Time limit of a call of kubectl.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Objects per page: a pod has about 6 KB, and each page is a call of kubectl.
const PAGE: usize = 2000;
/// The namespace of a context that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// The namespace of a pod, where kubectl works without a kubeconfig file.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// kubectl's current context. It is stored with the submission, because the user may switch to another one later.
#[derive(Default)]
pub struct KubeContext {
    /// Name of the context.
    pub name: Option<String>,
    /// Its default namespace; inside a cluster, that of this pod.
    pub namespace: Option<String>,
}

impl KubeContext {
    /// Queries kubectl; empty if there is no kubeconfig file, as inside a cluster.
    pub fn query() -> Self {
        let answer = query(&["kubectl", "config", "view", "--minify", "-o", "json"], QUERY_TIMEOUT).unwrap_or_default();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let name = text(&answer["current-context"]);
        let of_pod = || std::fs::read_to_string(POD_NAMESPACE).ok().filter(|_| name.is_none());
        let namespace = text(&answer["contexts"][0]["context"]["namespace"]).or_else(of_pod);
        KubeContext { namespace: namespace.map(|name| name.trim().to_owned()), name }
    }
}

/// The command line of a call of kubectl.
pub fn kubectl<'a>(submission: &'a Submission, args: &[&'a str]) -> Vec<&'a str> {
    let mut argv = vec!["kubectl"];
    if let Some(context) = &submission.cluster {
        argv.extend(["--context", context]);
    }
    if let Some(namespace) = &submission.namespace {
        argv.extend(["-n", namespace]);
    }
    argv.extend(args);
    argv
}

/// The label selector of the objects of a submission.
pub fn selector(submission: &Submission) -> String {
    let id = submission.parts.first().map_or("", |part| part.id.as_str());
    format!("shardrun={}", id.rsplit_once('-').map_or(id, |(name, _)| name))
}

/// The Jobs of a submission.
#[derive(Default)]
pub struct JobsView {
    /// Number of Jobs.
    pub count: usize,
    /// Number of Jobs that have not ended.
    pub active: usize,
    /// Completed tasks, if completion means that all of their items are done.
    pub completed: Vec<usize>,
}

/// A page of objects from the API server.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: PageInfo,
    items: Option<Vec<T>>,
}

/// Where the next page begins; empty on the last one.
#[derive(Default, Deserialize)]
struct PageInfo {
    #[serde(default, rename = "continue")]
    next: String,
}

/// Calls `visit` for each object that `path` below the namespace lists, such as `api/v1` and `pods`. Reads pages, because
/// `kubectl get -o` holds the whole list in memory: 650 MB for 100,000 pods.
fn each<T: DeserializeOwned>(
    submission: &Submission,
    (api, kind): (&str, &str),
    filter: &str,
    mut visit: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let namespace = submission.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let first = format!("/{api}/namespaces/{namespace}/{kind}?{filter}&limit={PAGE}");
    let mut next = String::new();
    loop {
        let url = if next.is_empty() { first.clone() } else { format!("{first}&continue={}", encode(&next)) };
        let answer = query(&kubectl(submission, &["get", "--raw", &url]), QUERY_TIMEOUT)?;
        let page: Page<T> =
            serde_json::from_str(&answer).with_context(|| format!("kubectl: invalid list of {kind}"))?;
        drop(answer);
        page.items.into_iter().flatten().try_for_each(&mut visit)?;
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(());
        }
    }
}

fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn label_filter(submission: &Submission) -> String {
    format!("labelSelector={}", encode(&selector(submission)))
}

/// Queries the Jobs of a submission. Query them before the pods, so that the pods of a Job that has ended have ended too.
pub fn jobs(submission: &Submission) -> Result<JobsView> {
    let mut view = JobsView::default();
    each(submission, ("apis/batch/v1", "jobs"), &label_filter(submission), |job: Value| {
        view.count += 1;
        view.active += usize::from(!has_ended(&job));
        view.completed.extend(completed(&job, submission));
        Ok(())
    })?;
    Ok(view)
}

/// Calls `visit` for each pod of a submission that still exists.
pub fn each_pod(submission: &Submission, mut visit: impl FnMut(Pod) -> Result<()>) -> Result<()> {
    each(submission, ("api/v1", "pods"), &label_filter(submission), |pod: PodObject| {
        Pod::new(pod, submission).map_or(Ok(()), &mut visit)
    })
}

/// Calls `visit` for each warning about a Job of the namespace, whosever it is.
pub fn each_warning(submission: &Submission, mut visit: impl FnMut(&Value)) -> Result<()> {
    let filter = format!("fieldSelector={}", encode("involvedObject.kind=Job,type=Warning"));
    each(submission, ("api/v1", "events"), &filter, |event: Value| {
        visit(&event);
        Ok(())
    })
}

/// Tasks of an Indexed Job that have succeeded. Without a backoff limit per index, this is empty: such pods succeed even if items
/// failed.
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
