//! What the listener of redirects serves: redirects and nothing else.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, Uri, header};
use hyper::body::Incoming;
use tidegate_edge::worker::{Outcome, Request};
use tokio::time::timeout;

use super::OpenEdge;
use super::answers::Sent;
use crate::connection::{
    AccessRequest, Admitted, Begun, ConnectionMetrics, FORWARDED_HOST, Output, PlainHead, Service, Written,
};
use crate::http::Problem;

/// Redirects by a worker. Clones are one.
#[derive(Debug, Clone)]
pub(crate) struct EdgeService(OpenEdge);

impl EdgeService {
    pub(crate) fn new(edge: OpenEdge) -> Self {
        Self(edge)
    }

    /// A redirect is one more of its link.
    #[inline]
    fn note(&self, outcome: &Outcome<'_>, host: &str, path: &str, is_head: bool) {
        if let (Outcome::Redirect(_), false) = (outcome, is_head) {
            self.0.hot().note(host, path);
        }
    }

    /// The host that was asked for: as a proxy says that is believed, or else as the request itself does.
    fn host<'a>(&self, own: &'a str, forwarded: Option<&'a [u8]>, peer: Option<SocketAddr>) -> &'a str {
        match forwarded {
            Some(forwarded) if self.0.proxies().trust(peer) => {
                // The last one is what our peer has written; what is before it, whoever asked may have.
                let last = forwarded.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                std::str::from_utf8(last).unwrap_or_default().trim()
            }
            _ => own,
        }
    }
}

/// A request that has to be waited for.
#[derive(Debug)]
pub(crate) struct Asked {
    host: String,
    path: String,
    query: Option<String>,
    is_head: bool,
}

impl Asked {
    fn request(&self) -> Request<'_> {
        let Self { host, path, query, is_head } = self;
        Request { host, path, query: query.as_deref(), is_head: *is_head }
    }
}

/// Whether a target is one that every reader of it takes apart alike: a path in the characters that it may have, and
/// perhaps a query.
fn is_plain_target(target: &str) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            plain[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"-._~!$&'()*+,;=:@/%?";
        let mut at = 0;
        while at < others.len() {
            plain[others[at] as usize] = true;
            at += 1;
        }
        plain
    };
    target.starts_with('/') && target.bytes().all(|byte| PLAIN[usize::from(byte)])
}

fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

impl Service for EdgeService {
    const IS_PUBLIC: bool = true;

    /// Whether it only asks what would be.
    type Fast<'a> = bool;
    type Waiting<'a> = Box<Asked>;

    /// Redirects are for everybody.
    fn admit(&self, _: &AccessRequest<'_>) -> Result<(), Problem> {
        Ok(())
    }

    #[inline]
    fn recognise(&self, head: &PlainHead<'_>) -> Option<bool> {
        let is_head = match head.method {
            "GET" => false,
            "HEAD" => true,
            _ => return None,
        };
        (head.length.unwrap_or(0) == 0 && is_plain_target(head.target)).then_some(is_head)
    }

    #[inline]
    fn begin(
        &self,
        is_head: bool,
        head: &PlainHead<'_>,
        admitted: Admitted,
        output: &mut Output<'_>,
    ) -> Begun<Box<Asked>> {
        let host = self.host(head.host, head.forwarded_host, admitted.peer());
        let (path, query) = split(head.target);
        let age_seconds = self.0.age_seconds();
        let answered = self.0.worker().try_answer(&Request { host, path, query, is_head }, |outcome, _| {
            self.note(&outcome, host, path, is_head);
            self.0.answers().write(&Sent::Found(outcome), is_head, age_seconds, output)
        });
        match answered {
            Ok(written) => Begun::Answered(written),
            Err(_) => {
                let (host, path, query) = (host.to_owned(), path.to_owned(), query.map(str::to_owned));
                Begun::Waiting(Box::new(Asked { host, path, query, is_head }), admitted)
            }
        }
    }

    async fn respond(
        &self,
        asked: Self::Waiting<'_>,
        _: &[u8],
        _: Instant,
        _: Admitted,
        output: &mut Output<'_>,
    ) -> Written {
        let age_seconds = self.0.age_seconds();
        let write = |outcome: Outcome<'_>, _| {
            self.note(&outcome, &asked.host, &asked.path, asked.is_head);
            self.0.answers().write(&Sent::Found(outcome), asked.is_head, age_seconds, output)
        };
        self.0.worker().answer(&asked.request(), write).await
    }

    async fn route(&self, request: hyper::Request<Incoming>, admitted: Admitted) -> Response<Body> {
        let (answers, age_seconds) = (self.0.answers(), self.0.age_seconds());
        let (method, uri) = (request.method(), request.uri());
        if *method == Method::OPTIONS && uri.path() == "*" {
            return answers.response(&Sent::Methods, false, age_seconds);
        }
        if *method == Method::CONNECT {
            return answers.response(&Sent::NotForMethod, false, age_seconds);
        }
        let headers = request.headers();
        let forwarded = headers.get_all(FORWARDED_HOST).into_iter().next_back();
        let host = self.host(own_host(uri, headers), forwarded.map(|it| it.as_bytes()), admitted.peer());
        // What keeps the method of a request is for every method; what does not is for those that only read.
        let (is_head, is_read) = (*method == Method::HEAD, *method == Method::GET || *method == Method::HEAD);
        let asked = Request { host, path: uri.path(), query: uri.query(), is_head };
        let not_for_method = |outcome: &Outcome<'_>| match outcome {
            Outcome::Redirect(to) => !is_read && !to.code.keeps_method(),
            _ => false,
        };
        let respond = |outcome: Outcome<'_>| match not_for_method(&outcome) {
            true => answers.response(&Sent::NotForMethod, false, age_seconds),
            false => answers.response(&Sent::Found(outcome), is_head, age_seconds),
        };
        let worker = self.0.worker();
        let answered = async {
            if !is_read {
                // Looked at first, so that nothing is spent for a refusal.
                let looked = Request { is_head: true, ..asked };
                let refused = worker.answer(&looked, |outcome, _| {
                    not_for_method(&outcome)
                        .then(|| answers.response(&Sent::NotForMethod, false, age_seconds))
                });
                if let Some(refused) = refused.await {
                    return refused;
                }
            }
            let answered = worker.answer(&asked, |outcome, _| {
                self.note(&outcome, host, uri.path(), is_head);
                respond(outcome)
            });
            answered.await
        };
        // Both together have the time that one has.
        let unavailable = |_| respond(Outcome::Unavailable { retry_after: Duration::from_secs(1) });
        timeout(worker.deadline(), answered).await.unwrap_or_else(unavailable)
    }

    fn metrics(&self) -> &ConnectionMetrics {
        self.0.connections()
    }
}

/// The host that a request names; nothing if it names none, or one with somebody's name in front.
fn own_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    if let Some(authority) = uri.authority() {
        return if authority.as_str().contains('@') { "" } else { authority.as_str() };
    }
    let mut hosts = headers.get_all(header::HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => "",
    }
}
