//! Checks of -j and --max-failures on Kubernetes, where a run is one Job or several that do not know of each other.

use anyhow::{Result, bail};
use tarpipe::cli::Usage;

use super::manifest::{self, ServerVersion};
use crate::shardrun::engine::site_config::SiteConfig;
use crate::shardrun::run::pending::PendingRun;
use crate::shardrun::task::bundle;

/// Pods at once without -j: few enough not to overload servers and object stores.
const DEFAULT_PARALLEL: usize = 256;

/// Refuses combinations of flags that cannot work.
pub fn check(pending: &PendingRun, config: &SiteConfig) -> Result<()> {
    if manifest::image(pending, config).is_empty() {
        bail!(Usage("--on k8s requires --image, or image in the section k8s of --config".into()));
    }
    if pending.settings.plain_jobs && pending.settings.jobs > 0 && !pending.settings.wait {
        bail!(Usage("--plain-jobs with -j requires --wait: only shardrun can limit the number of Jobs".into()));
    }
    Ok(())
}

/// Refuses limits that nothing would enforce, because Jobs do not know of each other.
pub fn check_limits(pending: &PendingRun, server: ServerVersion, slices: usize) -> Result<()> {
    let tasks = bundle::count_tasks(&pending.todo, pending.settings.chunk);
    if is_plain(pending, server) && tasks > DEFAULT_PARALLEL && !pending.settings.wait {
        bail!(Usage(format!("{tasks} single-pod Jobs require --wait: only shardrun can limit the number of Jobs")));
    }
    if !is_plain(pending, server) && parallel(pending) < slices {
        let jobs = pending.settings.jobs;
        bail!(Usage(format!(
            "-j {jobs}: these tasks take {slices} Jobs, each with at least one pod; raise --chunk or -j"
        )));
    }
    if pending.settings.max_failures.is_some() && !counts_failures(pending, server, slices) && !pending.settings.wait {
        bail!(Usage("--max-failures requires --wait here: Kubernetes itself counts failed items only from 1.29 on, for a single Job without --chunk".into()));
    }
    Ok(())
}

/// Whether the server itself stops the run after too many failures.
pub fn counts_failures(pending: &PendingRun, server: ServerVersion, slices: usize) -> bool {
    server.has_limit_per_index() && !is_plain(pending, server) && slices == 1 && pending.settings.chunk == 1
}

/// Number of pods that may run at once.
pub fn parallel(pending: &PendingRun) -> usize {
    if pending.settings.jobs > 0 { pending.settings.jobs } else { DEFAULT_PARALLEL }
}

/// Whether each task is a Job of its own.
pub fn is_plain(pending: &PendingRun, server: ServerVersion) -> bool {
    pending.settings.plain_jobs || !server.has_indexed()
}
