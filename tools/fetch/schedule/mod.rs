//! Which row is fetched when: the scheduler, the queues of the hosts, retries, and the thread that runs the requests.

mod host_queues;
#[cfg(test)]
mod model_test;
mod retry;
mod row_ring;
mod runtime;
mod scheduler;

pub use host_queues::HostLimits;
pub use retry::RetryPolicy;
pub use runtime::start;
pub use scheduler::{Gauges, ScheduleChannels, ScheduleOptions};
