//! Names to addresses, inside the process: cached, also when there is no answer, and with a bound on
//! the queries in flight. What it hands out has been checked and is what gets connected to.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use tokio::sync::Semaphore;

use super::address::Rules;
use super::failure::{Code, Failure};

/// Home routers and small name servers drop queries beyond a few hundred at once.
const QUERIES_IN_FLIGHT: usize = 128;

/// Answers kept, and no-answers.
const CACHED: u64 = 32_768;

/// Looks names up and checks what comes back.
pub struct Resolver {
    /// None when the machine names no server: addresses in URLs still work.
    servers: Option<TokioResolver>,
    queries: Semaphore,
    rules: Arc<Rules>,
}

impl Resolver {
    /// Asks `servers`, or those of the system when there are none.
    pub fn new(servers: &[SocketAddr], rules: Arc<Rules>) -> Result<Self> {
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
                options.cache_size = CACHED;
                // Half the queries; a host with IPv6 alone is found by the second one.
                options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
                options.negative_min_ttl = Some(Duration::from_secs(30));
                Some(builder.build().context("name servers")?)
            }
        };
        Ok(Resolver { servers, queries: Semaphore::new(QUERIES_IN_FLIGHT), rules })
    }

    /// The addresses of a host that may be connected to: at least one.
    pub async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, Failure> {
        let found = match host.trim_matches(['[', ']']).parse() {
            Ok(address) => vec![address],
            Err(_) => self.look_up(host).await?,
        };
        let (refused, allowed): (Vec<_>, Vec<_>) =
            found.into_iter().map(|address| (self.rules.refuses(address), address)).partition(|(why, _)| why.is_some());
        match refused.into_iter().next() {
            Some((Some(why), _)) if allowed.is_empty() => {
                Err(Failure::lasting(Code::BlockedAddress, format!("{host}: {why}")))
            }
            _ => Ok(allowed.into_iter().map(|(_, address)| address).collect()),
        }
    }

    async fn look_up(&self, host: &str) -> Result<Vec<IpAddr>, Failure> {
        let Some(servers) = &self.servers else {
            return Err(Failure::lasting(Code::Dns, "no name server is configured (name one with --dns)"));
        };
        let Ok(_query) = self.queries.acquire().await else {
            return Err(Failure::lasting(Code::Interrupted, "interrupted"));
        };
        // The final dot keeps the search list of resolv.conf out: a dead name costs one query, not five.
        let name = if host.contains('.') && !host.ends_with('.') { format!("{host}.") } else { host.to_owned() };
        match servers.lookup_ip(name).await {
            Ok(found) => {
                let addresses: Vec<IpAddr> = found.iter().collect();
                if addresses.is_empty() {
                    return Err(Failure::lasting(Code::Dns, format!("{host}: no address")));
                }
                Ok(addresses)
            }
            Err(err) if err.is_nx_domain() => Err(Failure::lasting(Code::Dns, format!("{host}: no such name"))),
            Err(err) if err.is_no_records_found() => Err(Failure::lasting(Code::Dns, format!("{host}: no address"))),
            Err(err) => Err(Failure::passing(Code::Dns, format!("{host}: {err}"))),
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
