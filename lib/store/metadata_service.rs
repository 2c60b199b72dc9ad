//! Asks the metadata service of a cloud whether this machine is one of its own,
//! with a role to use. Only asked if no other credentials were found; without
//! an answer the bucket is accessed anonymously.

use std::time::Duration;

use crate::http;

/// The service is on the same host: it answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(1);
const ADDRESS: &str = "http://169.254.169.254";

/// Whether this is an EC2 instance, unless AWS_EC2_METADATA_DISABLED is set.
/// Takes up to a second.
pub(super) fn is_amazon(address: Option<&str>) -> bool {
    if std::env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true")) {
        return false;
    }
    let url = format!("{}/latest/api/token", address.unwrap_or(ADDRESS));
    let request = http::agent(&url).put(&url).header("X-aws-ec2-metadata-token-ttl-seconds", "60");
    let answer = request.config().timeout_global(Some(PATIENCE)).build().send_empty();
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// Whether this is a machine of Google Cloud. Takes up to a second.
pub(super) fn is_google() -> bool {
    let request =
        http::agent(ADDRESS).get(format!("{ADDRESS}/computeMetadata/v1/")).header("Metadata-Flavor", "Google");
    let answer = request.config().timeout_global(Some(PATIENCE)).build().call();
    answer.is_ok_and(|answer| answer.status().is_success())
}

/// Whether this is a machine of Azure. Takes up to a second.
pub(super) fn is_azure() -> bool {
    let request = http::agent(ADDRESS).get(format!("{ADDRESS}/metadata/versions")).header("Metadata", "true");
    let answer = request.config().timeout_global(Some(PATIENCE)).build().call();
    answer.is_ok_and(|answer| answer.status().is_success())
}
