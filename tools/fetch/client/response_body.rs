//! The body of a response, of HTTP/1.1 or HTTP/2, read piece by piece.

use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::http1::Http1Body;
use super::idle_pool::ReturnTo;
use crate::fetch::failure::{FailureCode, FetchFailure};

/// A body that is being read. Its connection is reused once it has been read to its end.
pub struct ResponseBody(Option<BodySource>);

enum BodySource {
    Http1 { body: Http1Body, return_to: ReturnTo },
    Http2(Incoming),
}

impl ResponseBody {
    pub fn http1(body: Http1Body, return_to: ReturnTo) -> Self {
        ResponseBody(Some(BodySource::Http1 { body, return_to }))
    }

    pub fn http2(incoming: Incoming) -> Self {
        ResponseBody(Some(BodySource::Http2(incoming)))
    }

    /// The number of bytes still to come, if the server announced it.
    pub fn expected_length(&self) -> Option<u64> {
        match self.0.as_ref()? {
            BodySource::Http1 { body, .. } => body.expected_length(),
            BodySource::Http2(incoming) => incoming.size_hint().exact(),
        }
    }

    /// Appends the next bytes to `data` and returns their number; 0 at the end of the body.
    pub async fn read(&mut self, data: &mut Vec<u8>) -> Result<usize, FetchFailure> {
        let read = match &mut self.0 {
            None => 0,
            Some(BodySource::Http1 { body, .. }) => body.read(data).await?,
            Some(BodySource::Http2(incoming)) => read_http2(incoming, data).await?,
        };
        if read == 0 {
            self.release();
        }
        Ok(read)
    }

    /// Drops the rest of the body. The connection is kept if nothing more of the body can arrive on it.
    pub fn release(&mut self) {
        if let Some(BodySource::Http1 { body, return_to }) = self.0.take()
            && let Some(connection) = body.into_connection()
        {
            return_to.put(connection);
        }
    }
}

async fn read_http2(incoming: &mut Incoming, data: &mut Vec<u8>) -> Result<usize, FetchFailure> {
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|_| {
            let message = format!("connection closed after {} bytes of the body", data.len());
            FetchFailure::transient(FailureCode::Truncated, message)
        })?;
        let Ok(piece) = frame.into_data() else { continue };
        if !piece.is_empty() {
            data.extend_from_slice(&piece);
            return Ok(piece.len());
        }
    }
    Ok(0)
}
