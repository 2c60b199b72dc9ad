//! The AWS profile in ~/.aws/config and ~/.aws/credentials that AWS_PROFILE
//! selects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use object_store::aws::AmazonS3Builder;

use super::credential_process::CredentialProcess;
use crate::run::shell::quote;

/// The settings of a profile in both files; the credentials file takes
/// precedence. Indented lines below `s3 =` are stored as `s3.KEY`.
#[derive(Debug, Default)]
pub(super) struct Profile {
    name: String,
    settings: BTreeMap<String, String>,
}

impl Profile {
    /// Reads the files, as far as they exist. Fails if a profile was selected
    /// by name and neither file has it.
    pub(super) fn load() -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let asked = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let name = asked.clone().unwrap_or_else(|| "default".into());
        let config = read(variable("AWS_CONFIG_FILE"), ".aws/config");
        let credentials = read(variable("AWS_SHARED_CREDENTIALS_FILE"), ".aws/credentials");
        let found = Profile::parse(&name, &config, &credentials);
        if found.settings.is_empty() && asked.is_some() {
            bail!("no profile '{name}' in ~/.aws/config or ~/.aws/credentials (AWS_PROFILE)");
        }
        Ok(found)
    }

    /// Combines the section of the profile in both files, and the services that
    /// it refers to.
    fn parse(name: &str, config: &str, credentials: &str) -> Self {
        let title = if name == "default" { "default".into() } else { format!("profile {name}") };
        let mut settings = section(config, &title);
        settings.extend(section(credentials, name));
        if let Some(services) = settings.get("services") {
            let services = section(config, &format!("services {services}"));
            settings.extend(services.into_iter().filter(|(key, _)| key.starts_with("s3.")));
        }
        Profile { name: name.into(), settings }
    }

    /// A setting, by its lower-case name.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    /// The endpoint for S3, or else the one for all services.
    pub(super) fn endpoint(&self) -> Option<String> {
        self.get("s3.endpoint_url").or_else(|| self.get("endpoint_url")).map(str::to_owned)
    }

    /// Adds the profile's credentials to the builder, if it has any. May run a
    /// command.
    pub(super) fn add_keys(&self, builder: AmazonS3Builder) -> Result<AmazonS3Builder> {
        if let (Some(key), Some(secret)) = (self.get("aws_access_key_id"), self.get("aws_secret_access_key")) {
            let builder = builder.with_access_key_id(key).with_secret_access_key(secret);
            return Ok(match self.get("aws_session_token") {
                Some(token) => builder.with_token(token),
                None => builder,
            });
        }
        match self.command() {
            Some(script) => {
                let keys = CredentialProcess::start(script).with_context(|| format!("profile '{}'", self.name))?;
                Ok(builder.with_credentials(Arc::new(keys)))
            }
            None => Ok(builder),
        }
    }

    /// The command that provides credentials that are not in the files.
    fn command(&self) -> Option<String> {
        if let Some(script) = self.get("credential_process") {
            return Some(script.to_owned());
        }
        let elsewhere = ["role_arn", "sso_session", "sso_start_url", "login_session"];
        let elsewhere = elsewhere.iter().any(|key| self.get(key).is_some());
        elsewhere.then(|| format!("aws configure export-credentials --format process --profile {}", quote(&self.name)))
    }

    /// Whether the profile provides credentials.
    pub(super) fn has_keys(&self) -> bool {
        self.get("aws_access_key_id").is_some() || self.command().is_some()
    }
}

fn read(named: Option<String>, usual: &str) -> String {
    let path = named.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(usual)));
    path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

/// The settings in the section `[title]`.
fn section(text: &str, title: &str) -> BTreeMap<String, String> {
    let (mut inside, mut group, mut settings) = (false, String::new(), BTreeMap::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some(found) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = found.split_whitespace().eq(title.split_whitespace());
            continue;
        }
        let Some((key, value)) = bare.split_once('=').filter(|_| inside) else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let nested = line.starts_with([' ', '\t']);
        if value.is_empty() && !nested {
            group = key;
        } else if nested && !group.is_empty() {
            settings.insert(format!("{group}.{key}"), value.into());
        } else {
            group.clear();
            settings.insert(key, value.into());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[default]\nregion = eu-west-1\n\n# a comment\n[profile lab]\nregion=us-west-2\nservices = local\n\
        s3 =\n    max_concurrent_requests = 20\nendpoint_url = http://general\n[services local]\ns3 =\n  endpoint_url = http://lab:9000\n";
    const CREDENTIALS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key = B\n\n[lab]\naws_access_key_id = C\n\
        aws_secret_access_key = D=/+\naws_session_token = E\n";

    #[test]
    fn both_files_make_one_profile() {
        let profile = Profile::parse("lab", CONFIG, CREDENTIALS);
        assert_eq!(profile.get("region"), Some("us-west-2"));
        assert_eq!(profile.get("aws_secret_access_key"), Some("D=/+"));
        assert_eq!(profile.endpoint().as_deref(), Some("http://lab:9000"));
        assert_eq!(profile.get("s3.max_concurrent_requests"), Some("20"));
        let usual = Profile::parse("default", CONFIG, CREDENTIALS);
        assert_eq!((usual.get("region"), usual.get("aws_access_key_id")), (Some("eu-west-1"), Some("A")));
        assert_eq!(usual.endpoint(), None);
    }

    #[test]
    fn keys_that_are_not_in_the_files_come_from_a_command() {
        let command = |text: &str| Profile::parse("x", &format!("[profile x]\n{text}\n"), "").command();
        assert_eq!(command("credential_process = give keys").as_deref(), Some("give keys"));
        let amazon = "aws configure export-credentials --format process --profile x";
        assert_eq!(command("sso_session = y").as_deref(), Some(amazon));
        assert_eq!(command("role_arn = y\nsource_profile = z").as_deref(), Some(amazon));
        assert_eq!(command("region = y"), None);
    }
}
