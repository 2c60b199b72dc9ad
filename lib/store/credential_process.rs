//! AWS credentials from a command: the `credential_process` of a profile, or
//! Amazon's own client for profiles that use single sign-on or assume a role.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use parking_lot::Mutex;
use serde_json::Value;

use crate::run::shell;

/// Credentials that expire are requested again after this time: Amazon's client
/// never returns any with less than 10 minutes left.
const FRESH: Duration = Duration::from_secs(300);

/// The command, and the credentials that it returned last.
#[derive(Debug)]
pub(super) struct CredentialProcess {
    script: String,
    last: Mutex<Option<(Arc<AwsCredential>, Instant)>>,
}

impl CredentialProcess {
    /// Runs the command once, so that its failure is reported at the start.
    pub(super) fn start(script: String) -> Result<Self> {
        let command = CredentialProcess { script, last: Mutex::new(None) };
        command.keys()?;
        Ok(command)
    }

    /// The last credentials while they are fresh, otherwise new ones.
    fn keys(&self) -> Result<Arc<AwsCredential>> {
        let mut last = self.last.lock();
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
impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        // Blocks a thread of the runtime while the command runs, every few minutes.
        self.keys().map_err(|err| object_store::Error::Generic { store: "S3", source: err.into() })
    }
}

/// Runs the command. Its stderr is shown to the user; its output is secret and
/// never appears in messages.
fn run(script: &str) -> Result<AwsCredential> {
    let output = shell::shell(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    shell::check(output.status).with_context(|| format!("credentials from '{script}'"))?;
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let field = |name: &str| said[name].as_str().map(str::to_owned);
    let (Some(key_id), Some(secret_key)) = (field("AccessKeyId"), field("SecretAccessKey")) else {
        bail!("credentials from '{script}': AccessKeyId or SecretAccessKey is missing");
    };
    Ok(AwsCredential { key_id, secret_key, token: field("SessionToken") })
}
