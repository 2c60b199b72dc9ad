//! The client of S3, Amazon's and compatible ones.

use std::sync::Arc;

use anyhow::Result;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, resolve_bucket_region};

use super::client::{Bucket, options, retries};
use super::error::explain;
use super::profile::Profile;
use super::retry_log::LoggingConnector;
use super::{endpoint, metadata_service, runtime};

/// Creates the client of a bucket. Credentials come from the environment, else
/// from the profile, else from the role of the container or the machine;
/// without any, the bucket is accessed anonymously. The region is looked up if
/// it is not configured.
pub(super) fn bucket(name: &str) -> Result<Bucket> {
    let profile = Profile::load()?;
    let mut builder = from_environment().with_bucket_name(name);
    let in_environment = builder.get_config_value(&Key::AccessKeyId).is_some();
    if !in_environment {
        builder = profile.add_keys(builder)?;
    }
    if builder.get_config_value(&Key::Region).is_none()
        && let Some(region) = profile.get("region")
    {
        builder = builder.with_region(region);
    }
    let url = endpoint().map(str::to_owned).or_else(|| configured_endpoint(&builder, &profile));
    if let Some(url) = &url {
        builder = builder.with_config(Key::S3Endpoint, url.trim_end_matches('/'));
    }
    let has_keys = in_environment || profile.has_keys() || finds_role(&builder);
    let anonymous = is_asked_for_none(&builder) || !has_keys;
    let options = options(url.clone());
    if url.is_none() && builder.get_config_value(&Key::Region).is_none() {
        builder = builder.with_region(region_of(name)?);
    }
    let builder = builder.with_skip_signature(anonymous).with_client_options(options).with_retry(retries());
    let store = builder.with_http_connector(LoggingConnector).build().map_err(|err| explain(err, None))?;
    Ok(Bucket { store: Arc::new(store), anonymous: anonymous.then_some(HINT) })
}

const HINT: &str = "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

/// The settings in AWS_* variables; empty ones are ignored.
fn from_environment() -> AmazonS3Builder {
    let text =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let set = text.filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty());
    set.fold(AmazonS3Builder::new(), |builder, (name, value)| match name.to_ascii_lowercase().parse::<Key>() {
        Ok(key) => builder.with_config(key, value),
        Err(_) => builder,
    })
}

/// The endpoint of the environment, then that of the profile.
fn configured_endpoint(builder: &AmazonS3Builder, profile: &Profile) -> Option<String> {
    let value = |key| builder.get_config_value(&key);
    value(Key::S3Endpoint).or_else(|| value(Key::Endpoint)).or_else(|| profile.endpoint())
}

/// Whether AWS_SKIP_SIGNATURE asks for anonymous access.
fn is_asked_for_none(builder: &AmazonS3Builder) -> bool {
    builder.get_config_value(&Key::SkipSignature).is_some_and(|value| value == "true")
}

/// Whether the container or the machine has a role.
fn finds_role(builder: &AmazonS3Builder) -> bool {
    let given = [Key::WebIdentityTokenFile, Key::ContainerCredentialsRelativeUri, Key::ContainerCredentialsFullUri];
    given.iter().any(|key| builder.get_config_value(key).is_some())
        || metadata_service::is_amazon(builder.get_config_value(&Key::MetadataEndpoint).as_deref())
}

/// Asks Amazon for the region of a bucket: requests are answered only there.
fn region_of(bucket: &str) -> Result<String> {
    let (name, options) = (bucket.to_owned(), options(None));
    let asked = runtime::wait(async move { resolve_bucket_region(&name, &options).await })?;
    asked.map_err(|err| explain(err, None))
}
