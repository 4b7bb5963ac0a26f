//! A snapshot of another server: lines, packed or not, as they come.

use std::io::Write as _;
use std::time::Duration;

use axum::http::{Response, header};
use flate2::write::GzDecoder;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_edge::worker::OriginSnapshot;
use tidegate_edge::{Error, ErrorKind, Result};

use crate::address::Connected;

/// How long a snapshot may stand still.
const STILL: Duration = Duration::from_secs(30);

/// A snapshot on its way.
#[derive(Debug)]
pub(crate) struct RemoteSnapshot {
    body: Incoming,
    decoder: Option<GzDecoder<Vec<u8>>>,
    _connected: Connected,
}

impl RemoteSnapshot {
    pub(super) fn new(response: Response<Incoming>, connected: Connected) -> Self {
        let coding = response.headers().get(header::CONTENT_ENCODING);
        let is_gzip = coding.is_some_and(|coding| coding == "gzip");
        let decoder = is_gzip.then(|| GzDecoder::new(Vec::new()));
        Self { body: response.into_body(), decoder, _connected: connected }
    }

    /// What a piece is, unpacked.
    fn unpacked(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match &mut self.decoder {
            None => Ok(bytes.to_vec()),
            Some(decoder) => {
                decoder.write_all(bytes)?;
                Ok(std::mem::take(decoder.get_mut()))
            }
        }
    }
}

impl OriginSnapshot for RemoteSnapshot {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let broken = |error: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Unavailable, format!("a snapshot broke: {error}"))
        };
        loop {
            let frame = tokio::time::timeout(STILL, self.body.frame()).await;
            let frame = frame.map_err(|_| broken(&format!("nothing for {} s", STILL.as_secs())))?;
            let Some(frame) = frame else {
                let rest = self.decoder.take().map(GzDecoder::finish).transpose();
                let rest = rest.map_err(|error| broken(&error))?;
                return Ok(rest.filter(|rest| !rest.is_empty()));
            };
            let frame = frame.map_err(|error| broken(&error))?;
            if let Ok(bytes) = frame.into_data() {
                let piece = self.unpacked(&bytes).map_err(|error| broken(&error))?;
                if !piece.is_empty() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}
