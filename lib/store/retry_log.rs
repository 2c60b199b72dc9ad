//! The HTTP client below a store: reports failures that will be retried, and
//! waits as long as the server asks.

use std::time::{Duration, SystemTime};

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

use crate::messages;
use crate::run::backoff;

/// The maximum that Retry-After is honoured for.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Wraps the HTTP clients that object_store creates.
#[derive(Debug)]
pub(super) struct LoggingConnector;

impl HttpConnector for LoggingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(LoggingService(ReqwestConnector::default().connect(options)?)))
    }
}

/// Reports each failed request with `-v`. object_store retries it, but ignores
/// Retry-After; hence the wait here.
#[derive(Debug)]
struct LoggingService(HttpClient);

#[async_trait::async_trait]
impl HttpService for LoggingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Without the query, which may contain a signature.
        let what = format!("{} {}", request.method(), request.uri().path());
        let result = self.0.execute(request).await;
        match &result {
            Ok(response) if response.status().is_server_error() || response.status().as_u16() == 429 => {
                messages::detail(&format!("{what}: the server answers {}", response.status()));
                if let Some(wait) = retry_after(response) {
                    tokio::time::sleep(wait.min(LONGEST_WAIT)).await;
                }
            }
            Err(err) => messages::detail(&format!("{what}: {err}")),
            Ok(_) => {}
        }
        result
    }
}

fn retry_after(response: &HttpResponse) -> Option<Duration> {
    backoff::retry_after(response.headers().get("retry-after")?.to_str().ok()?, SystemTime::now())
}
