//! Resolves host names within the process. Answers are cached, negative ones too, and the number of queries in flight is
//! limited. The addresses it returns are checked, and are those that fetch connects to: a second lookup could give others.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::Semaphore;

use super::address_rules::AddressRules;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// Home routers and small name servers drop queries beyond a few hundred at a time.
const QUERIES_IN_FLIGHT: usize = 128;

/// Answers to cache, negative ones included.
const CACHE_SIZE: u64 = 32_768;

/// Resolves host names and checks the addresses.
pub struct Resolver {
    /// None if the system has no name server configured: IP addresses in URLs still work.
    servers: Option<TokioResolver>,
    queries: Semaphore,
    rules: Arc<AddressRules>,
}

impl Resolver {
    /// Uses `servers`, or those of the system if there are none.
    pub fn new(servers: &[SocketAddr], rules: Arc<AddressRules>) -> Result<Self> {
        let builder = match servers {
            [] => TokioResolver::builder_tokio().ok(),
            _ => Some(TokioResolver::builder_with_config(config(servers), TokioRuntimeProvider::default())),
        };
        let servers = match builder {
            None => None,
            Some(mut builder) => {
                let options = builder.options_mut();
                options.timeout = Duration::from_secs(3);
                options.attempts = 2;
                options.cache_size = CACHE_SIZE;
                // Half the queries: only a host without IPv4 needs a second one.
                options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
                options.negative_min_ttl = Some(Duration::from_secs(30));
                Some(builder.build().context("name servers")?)
            }
        };
        Ok(Resolver { servers, queries: Semaphore::new(QUERIES_IN_FLIGHT), rules })
    }

    /// The addresses of a host that may be connected to, at least one.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, FetchFailure> {
        let found = match host.trim_matches(['[', ']']).parse() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(host).await?,
        };
        let (refused, allowed): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|address| (self.rules.refuse(address), address))
            .partition(|(reason, _)| reason.is_some());
        match refused.into_iter().next() {
            Some((Some(reason), _)) if allowed.is_empty() => {
                Err(FetchFailure::permanent(FailureCode::BlockedAddress, format!("{host}: {reason}")))
            }
            _ => Ok(allowed.into_iter().map(|(_, address)| address).collect()),
        }
    }

    async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, FetchFailure> {
        let Some(servers) = &self.servers else {
            return Err(FetchFailure::permanent(FailureCode::Dns, "no name server is configured; set one with --dns"));
        };
        let Ok(_query) = self.queries.acquire().await else {
            return Err(FetchFailure::permanent(FailureCode::Interrupted, "interrupted"));
        };
        // The final dot bypasses the search list of resolv.conf: an unknown name costs one query, not five.
        let name = if host.contains('.') && !host.ends_with('.') { format!("{host}.") } else { host.to_owned() };
        match servers.lookup_ip(name).await {
            Ok(found) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() {
                    return Err(FetchFailure::permanent(FailureCode::Dns, format!("{host}: no address")));
                }
                Ok(addresses)
            }
            Err(err) if err.is_nx_domain() => {
                Err(FetchFailure::permanent(FailureCode::Dns, format!("{host}: unknown host")))
            }
            Err(err) if err.is_no_records_found() => {
                Err(FetchFailure::permanent(FailureCode::Dns, format!("{host}: no address")))
            }
            Err(err) => Err(FetchFailure::transient(FailureCode::Dns, format!("{host}: {err}"))),
        }
    }
}

fn config(servers: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = address.port();
            connection
        });
        NameServerConfig::new(address.ip(), true, connections.into())
    };
    ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect())
}
