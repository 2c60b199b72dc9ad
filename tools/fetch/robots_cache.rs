//! The robots.txt of every host that was asked, each fetched once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use url::Url;

use super::failure::Failure;
use super::request::Client;
use super::robots::{MAX_BYTES, Robots};

/// Hosts remembered; beyond that all are forgotten, which costs a request each.
const MAX_HOSTS: usize = 20_000;

/// Answers by origin.
#[derive(Default)]
pub struct RobotsCache(Mutex<HashMap<String, Arc<OnceCell<Robots>>>>);

impl RobotsCache {
    /// Whether the host of `url` lets us fetch it.
    pub async fn allows(&self, client: &Client, url: &Url) -> Result<bool, Failure> {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let cell = self.cell(url.origin().ascii_serialization());
        let robots = cell.get_or_try_init(|| client.robots(url)).await?;
        Ok(robots.allows(&path))
    }

    fn cell(&self, origin: String) -> Arc<OnceCell<Robots>> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MAX_HOSTS {
            hosts.clear();
        }
        Arc::clone(hosts.entry(origin).or_default())
    }
}

impl Client {
    /// Fetches robots.txt. An unreachable host fails the row under its own code.
    async fn robots(&self, url: &Url) -> Result<Robots, Failure> {
        let mut place = url.clone();
        place.set_path("/robots.txt");
        place.set_query(None);
        place.set_fragment(None);
        let (status, text) = self.small_file(&place, MAX_BYTES).await?;
        Ok(match status {
            200..300 => Robots::parse(&text, self.agent()),
            500.. | 429 => Robots::DenyAll,
            _ => Robots::AllowAll,
        })
    }
}
