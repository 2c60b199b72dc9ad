//! Clients of buckets: one per bucket and process, created when the first of
//! its names is opened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{
    BackoffConfig, Certificate, ClientOptions, HeaderValue, ObjectStore, RetryConfig, StaticCredentialProvider,
};
use parking_lot::Mutex;

use super::error::explain;
use super::retry_log::LoggingConnector;
use super::{aws, endpoint, metadata_service};
use crate::http;

/// How often a request is sent before it fails; AWS_MAX_ATTEMPTS overrides it,
/// as for Amazon's own clients.
const ATTEMPTS: usize = 8;
/// A connection without any data for this long is considered dropped. One part
/// of an upload has to be sent in this time.
const STALL: Duration = Duration::from_secs(120);

/// Everything that we need of a store.
pub(super) trait StoreClient: ObjectStore + MultipartStore + PaginatedListStore {}
impl<T: ObjectStore + MultipartStore + PaginatedListStore> StoreClient for T {}

/// A bucket and its client.
pub(super) struct Bucket {
    pub(super) store: Arc<dyn StoreClient>,
    /// The hint for refusals, if no credentials were found.
    pub(super) anonymous: Option<&'static str>,
}

/// The client of a bucket, created on first use.
pub(super) fn bucket(scheme: &str, name: &str) -> Result<Arc<Bucket>> {
    static BUCKETS: Mutex<BTreeMap<String, Arc<Bucket>>> = Mutex::new(BTreeMap::new());
    let mut buckets = BUCKETS.lock();
    let full = format!("{scheme}://{name}");
    if let Some(bucket) = buckets.get(&full) {
        return Ok(Arc::clone(bucket));
    }
    // Fails only if a provider is installed already, which will do.
    _ = rustls::crypto::ring::default_provider().install_default();
    let made = match scheme {
        "s3" => aws::bucket(name)?,
        "gs" => google(name)?,
        _ => azure(name)?,
    };
    let made = Arc::new(made);
    buckets.insert(full, Arc::clone(&made));
    Ok(made)
}

/// Application default credentials are looked for where gcloud stores them.
fn google(name: &str) -> Result<Bucket> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(name);
    let emulator = std::env::var("STORAGE_EMULATOR_HOST").ok().filter(|host| !host.is_empty());
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    if let Some(url) = endpoint().map(str::to_owned).or(emulator.clone()) {
        builder = builder.with_base_url(url.trim_end_matches('/'));
    }
    let url = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    let asked = builder.get_config_value(&GoogleConfigKey::SkipSignature).is_some_and(|value| value == "true");
    let given = [GoogleConfigKey::ServiceAccount, GoogleConfigKey::ServiceAccountKey];
    let given = given.iter().any(|key| builder.get_config_value(key).is_some())
        || builder.get_config_value(&GoogleConfigKey::ApplicationCredentials).is_some()
        || builder.get_config_value(&GoogleConfigKey::BearerToken).is_some()
        || has_application_default();
    let anonymous = asked || emulator.is_some() || (!given && !metadata_service::is_google());
    if anonymous {
        // Some requests want a token all the same; an empty one avoids looking for the machine's.
        let nobody = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
        builder = builder.with_skip_signature(true).with_credentials(Arc::new(nobody));
    }
    let builder = builder.with_client_options(options(url)).with_retry(retries()).with_http_connector(LoggingConnector);
    let hint = "no credentials found: set GOOGLE_APPLICATION_CREDENTIALS";
    let store = Arc::new(builder.build().map_err(|err| explain(err, None))?);
    Ok(Bucket { store, anonymous: anonymous.then_some(hint) })
}

/// Whether `gcloud auth application-default login` has stored credentials.
fn has_application_default() -> bool {
    let config = std::env::var_os("CLOUDSDK_CONFIG").map(Into::into);
    let config = config.or_else(|| std::env::home_dir().map(|home| home.join(".config/gcloud")));
    config.is_some_and(|folder: std::path::PathBuf| folder.join("application_default_credentials.json").exists())
}

/// The account has no default: without a name there is no address to ask.
fn azure(name: &str) -> Result<Bucket> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(name);
    if let Some(url) = endpoint() {
        builder = builder.with_endpoint(url.trim_end_matches('/').to_owned());
    }
    let value = |builder: &MicrosoftAzureBuilder, key| builder.get_config_value(&key);
    let emulated = value(&builder, AzureConfigKey::UseEmulator).is_some_and(|value| value == "true");
    if value(&builder, AzureConfigKey::AccountName).is_none() && !emulated {
        bail!("missing storage account (set AZURE_STORAGE_ACCOUNT_NAME)");
    }
    let url = value(&builder, AzureConfigKey::Endpoint).or_else(|| emulated.then(|| "http://".into()));
    let given = AZURE_CREDENTIALS.iter().any(|name| std::env::var_os(name).is_some());
    let asked = value(&builder, AzureConfigKey::SkipSignature).is_some_and(|value| value == "true");
    let anonymous = asked || (!given && !emulated && !metadata_service::is_azure());
    builder = builder.with_skip_signature(anonymous);
    let builder = builder.with_client_options(options(url)).with_retry(retries()).with_http_connector(LoggingConnector);
    let hint = "no credentials found: set AZURE_STORAGE_ACCOUNT_KEY";
    let store = Arc::new(builder.build().map_err(|err| explain(err, None))?);
    Ok(Bucket { store, anonymous: anonymous.then_some(hint) })
}

/// Variables that mean that there are credentials of some kind.
const AZURE_CREDENTIALS: [&str; 10] = [
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_USE_AZURE_CLI",
    "IDENTITY_ENDPOINT",
];

/// How requests are sent. Plain HTTP is used only if the endpoint says so.
pub(super) fn options(endpoint: Option<String>) -> ClientOptions {
    let is_plain = endpoint.is_some_and(|url| url.starts_with("http://"));
    let options = ClientOptions::new()
        .with_allow_http(is_plain)
        .with_user_agent(HeaderValue::from_static(concat!("tarpipe/", env!("CARGO_PKG_VERSION"))))
        .with_http1_only() // several connections are faster than several streams of one
        .with_timeout_disabled()
        .with_connect_timeout(Duration::from_secs(20))
        .with_read_timeout(STALL);
    // reqwest can only be told by a proxy that serves no URL.
    let options = match http::proxies_are_disabled() {
        true => options.with_proxy_url("http://localhost").with_proxy_excludes("*,0.0.0.0/0,::/0"),
        false => options,
    };
    if is_plain || !http::roots().are_built_in {
        return options; // reqwest reads the same certificates
    }
    let certificates = http::roots().certificates.iter().filter_map(|der| Certificate::from_der(der).ok());
    certificates.fold(options, ClientOptions::with_root_certificate)
}

/// When requests are repeated: after 5xx, 429, 408 and dropped connections,
/// with increasing delays.
pub(super) fn retries() -> RetryConfig {
    let attempts = std::env::var("AWS_MAX_ATTEMPTS").ok().and_then(|text| text.parse().ok()).unwrap_or(ATTEMPTS);
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(250), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: attempts.max(1) - 1, ..RetryConfig::default() }
}
