//! The HTTP client that sources, sinks and stores share. `fetch` has its own: see tools/fetch.

use std::sync::OnceLock;
use std::time::Duration;

use ureq::Agent;

/// A connection that says nothing for so long is taken for dropped.
const STALL: Duration = Duration::from_secs(60);

/// The client that all sources and sinks share. Statuses are answers, not errors.
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

/// What the client says of a connection, without its own prefixes.
pub(crate) fn transport_error(err: ureq::Error) -> String {
    match err {
        ureq::Error::Io(err) => err.to_string(),
        err => err.to_string(),
    }
}
