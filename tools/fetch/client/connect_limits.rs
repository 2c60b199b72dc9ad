//! Limits how many connections to one origin are being opened at a time. A listening server often has a queue for 128
//! connections; the kernel silently drops those that do not fit, and the client only tries again after a second, then two.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections to one origin that may be in the process of opening.
const MAX_OPENING: usize = 128;

/// One semaphore per origin that is being connected to.
#[derive(Default)]
pub struct ConnectLimits(Mutex<HashMap<String, Arc<Semaphore>>>);

/// Permission to open a connection. Dropping the last permit of an origin removes its semaphore.
pub struct ConnectPermit<'a> {
    limits: &'a ConnectLimits,
    origin: &'a str,
    permit: Option<OwnedSemaphorePermit>,
}

impl ConnectLimits {
    /// Waits until a connection to `origin` may be opened.
    pub async fn acquire<'a>(&'a self, origin: &'a str) -> ConnectPermit<'a> {
        let mut permit = ConnectPermit { limits: self, origin, permit: None };
        let new = || Arc::new(Semaphore::new(MAX_OPENING));
        let semaphore = Arc::clone(self.0.lock().entry(origin.to_owned()).or_insert_with(new));
        permit.permit = semaphore.acquire_owned().await.ok();
        permit
    }
}

impl Drop for ConnectPermit<'_> {
    fn drop(&mut self) {
        self.permit = None;
        let mut semaphores = self.limits.0.lock();
        if semaphores.get(self.origin).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            semaphores.remove(self.origin);
        }
    }
}
