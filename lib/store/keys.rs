//! Keys that a command gives: a profile's `credential_process`, or Amazon's own client for profiles
//! that sign on or take a role.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use serde_json::Value;

use crate::run::shell;

/// Keys that expire are asked for again after so long: Amazon's client gives out none that have
/// less than 10 minutes left.
const FRESH: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Command {
    script: String,
    last: Mutex<Option<(Arc<AwsCredential>, Instant)>>,
}

impl Command {
    /// Runs the command once, so that its failure is told at the start.
    pub(super) fn start(script: String) -> Result<Self> {
        let command = Command { script, last: Mutex::new(None) };
        command.keys()?;
        Ok(command)
    }

    fn keys(&self) -> Result<Arc<AwsCredential>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((keys, at)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(keys));
        }
        let keys = Arc::new(run(&self.script)?);
        *last = Some((Arc::clone(&keys), Instant::now()));
        Ok(keys)
    }
}

#[async_trait::async_trait]
impl CredentialProvider for Command {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        // It blocks a thread of the runtime for as long as the command takes, once in a while.
        self.keys().map_err(|err| object_store::Error::Generic { store: "S3", source: err.into() })
    }
}

/// What it says on stderr is shown; what it prints is a secret.
fn run(script: &str) -> Result<AwsCredential> {
    let output = shell::shell(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    shell::check(output.status).with_context(|| format!("keys by '{script}'"))?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let field = |name: &str| said[name].as_str().map(str::to_owned);
    let (Some(key_id), Some(secret_key)) = (field("AccessKeyId"), field("SecretAccessKey")) else {
        bail!("keys by '{script}': it printed no AccessKeyId and SecretAccessKey");
    };
    Ok(AwsCredential { key_id, secret_key, token: field("SessionToken") })
}
