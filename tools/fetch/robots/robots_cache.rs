//! Remembers the robots.txt of each origin, so that it is requested once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use url::Url;

use super::robots_txt::RobotsTxt;
use crate::fetch::failure::FetchFailure;

/// The most origins to remember. Beyond that all are forgotten, which costs one request each.
const MAX_ORIGINS: usize = 20_000;

/// The rules of each origin. Requests to one origin wait for the first of them to fetch its rules.
#[derive(Default)]
pub struct RobotsCache(Mutex<HashMap<String, Arc<OnceCell<RobotsTxt>>>>);

impl RobotsCache {
    /// Whether robots.txt allows `url`. Calls `fetch` if the file is not known yet, and returns its failure if it fails.
    pub async fn allows<F>(&self, url: &Url, fetch: impl FnOnce() -> F) -> Result<bool, FetchFailure>
    where
        F: Future<Output = Result<RobotsTxt, FetchFailure>>,
    {
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let cell = self.cell(url.origin().ascii_serialization());
        let robots = cell.get_or_try_init(fetch).await?;
        Ok(robots.allows(&path))
    }

    fn cell(&self, origin: String) -> Arc<OnceCell<RobotsTxt>> {
        let mut origins = self.0.lock();
        if origins.len() >= MAX_ORIGINS {
            origins.clear();
        }
        Arc::clone(origins.entry(origin).or_default())
    }
}
