//! Whether this machine is one of a vendor's, with a role of its own. Asked only where no other
//! credentials were found; without an answer the bucket is taken for a public one.

use std::time::Duration;

use crate::http;

/// The service is on the same host: it answers at once or not at all.
const PATIENCE: Duration = Duration::from_secs(1);
const ADDRESS: &str = "http://169.254.169.254";

pub(super) fn is_amazon(address: Option<&str>) -> bool {
    if std::env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true")) {
        return false;
    }
    let url = format!("{}/latest/api/token", address.unwrap_or(ADDRESS));
    let request = http::agent().put(url).header("X-aws-ec2-metadata-token-ttl-seconds", "60");
    let answer = request.config().timeout_global(Some(PATIENCE)).proxy(None).build().send_empty();
    answer.is_ok_and(|answer| answer.status().is_success())
}

pub(super) fn is_google() -> bool {
    let request = http::agent().get(format!("{ADDRESS}/computeMetadata/v1/")).header("Metadata-Flavor", "Google");
    let answer = request.config().timeout_global(Some(PATIENCE)).proxy(None).build().call();
    answer.is_ok_and(|answer| answer.status().is_success())
}

pub(super) fn is_azure() -> bool {
    let request = http::agent().get(format!("{ADDRESS}/metadata/versions")).header("Metadata", "true");
    let answer = request.config().timeout_global(Some(PATIENCE)).proxy(None).build().call();
    answer.is_ok_and(|answer| answer.status().is_success())
}
