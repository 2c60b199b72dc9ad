//! -j and --max-failures on Kubernetes, where a run is one Job or several that know nothing of each other.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;

use super::manifest::{self, Server};
use crate::bundle;
use crate::config::Config;
use crate::job::Job;

/// Pods at once where -j does not say: servers and stores get a chance to cope.
const USUAL_PARALLEL: usize = 256;

/// Refuses flags that cannot be kept.
pub fn check(job: &Job, config: &Config) -> Result<()> {
    if manifest::image(job, config).is_empty() {
        bail!(Usage("--on k8s needs --image, or image in the section k8s of --config".into()));
    }
    if job.settings.plain_jobs && job.settings.jobs > 0 && !job.settings.wait {
        bail!(Usage("--plain-jobs with -j needs --wait: nobody else could hold the Jobs back".into()));
    }
    Ok(())
}

/// Refuses limits that nobody would keep: a Job knows nothing of the others.
pub fn check_limits(job: &Job, server: Server, slices: usize) -> Result<()> {
    let tasks = bundle::count(&job.todo, job.settings.chunk);
    if is_plain(job, server) && tasks > USUAL_PARALLEL && !job.settings.wait {
        bail!(Usage(format!("{tasks} tasks as single-pod Jobs need --wait: nobody else could hold the Jobs back")));
    }
    if !is_plain(job, server) && parallel(job) < slices {
        let jobs = job.settings.jobs;
        bail!(Usage(format!(
            "-j {jobs}: these tasks take {slices} Jobs, each with a pod at work; raise --chunk or -j"
        )));
    }
    if job.settings.max_failures.is_some() && !counts_failures(job, server, slices) && !job.settings.wait {
        bail!(Usage("--max-failures needs --wait here: only a single Job of a server from 1.29 on, without --chunk, counts failed items by itself".into()));
    }
    Ok(())
}

/// Whether the server itself stops when too many items have failed.
pub fn counts_failures(job: &Job, server: Server, slices: usize) -> bool {
    server.has_limit_per_index() && !is_plain(job, server) && slices == 1 && job.settings.chunk == 1
}

/// How many pods may run at once.
pub fn parallel(job: &Job) -> usize {
    if job.settings.jobs > 0 { job.settings.jobs } else { USUAL_PARALLEL }
}

/// Whether every task is a Job of its own.
pub fn is_plain(job: &Job, server: Server) -> bool {
    job.settings.plain_jobs || !server.has_indexed()
}
