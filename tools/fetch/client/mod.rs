//! The HTTP client of fetch, from top to bottom:
//!
//! - [`HttpClient`] requests a URL: redirects, cookies, robots.txt, opt-outs, limits of the body
//! - `ConnectionPool` sends requests on HTTP/1.1 and HTTP/2 connections and reuses them
//! - [`Connector`] opens connections: DNS, address check, proxy, TLS
//!
//! lib's client, which sources use, does not serve here: it blocks a thread per request, and it neither checks addresses nor
//! limits bodies.

pub mod address_rules;
pub mod body_limits;
mod connect_limits;
mod connection_pool;
mod connector;
mod cookies;
mod encoding;
mod http1;
mod http_client;
mod idle_pool;
mod resolver;
mod response_body;
mod status;
mod tls;

pub use address_rules::AddressRules;
pub use body_limits::BodyLimits;
pub use connector::Connector;
pub use http_client::{HttpClient, RequestOptions, RequestTrace};
pub use resolver::Resolver;
