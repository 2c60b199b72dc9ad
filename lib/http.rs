//! The HTTP client of sources, sinks and stores. fetch has its own, which is
//! asynchronous: see tools/fetch.

use std::sync::OnceLock;
use std::time::Duration;

use ureq::Agent;

/// A connection without any data for this long is considered dropped.
const STALL: Duration = Duration::from_secs(60);

/// The shared client: keeps connections alive, follows redirects, honours the
/// proxy variables of the environment, and uses the system's certificates. HTTP
/// error statuses are returned as responses, not as errors.
///
/// Connecting times out after 20 seconds, each read or write after 60; there is
/// no limit on the whole transfer.
pub(crate) fn agent() -> &'static Agent {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    AGENT.get_or_init(|| {
        let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(20)))
            .timeout_per_read(Some(STALL))
            .timeout_per_write(Some(STALL))
            .user_agent(concat!("tarpipe/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        config.into()
    })
}

/// The message of a failed connection, without the client's own prefixes.
pub(crate) fn transport_error(err: ureq::Error) -> String {
    match err {
        ureq::Error::Io(err) => err.to_string(),
        err => err.to_string(),
    }
}
