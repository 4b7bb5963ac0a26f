//! A service that checks how it is used.

use std::future::{Ready, ready};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use axum::http::{Request, Response};
use tower::Service;

/// A service with rules of its own: called only when it has said that it is ready,
/// once each time, and by the one that it said it to.
pub(super) struct Strict {
    is_ready: bool,
    seen: Arc<Seen>,
}

#[derive(Default)]
pub(super) struct Seen {
    calls: AtomicU32,
    /// How many are ready and wait to be called.
    held: AtomicU32,
}

impl Seen {
    pub(super) fn calls(&self) -> u32 {
        assert_eq!(self.held.load(Ordering::SeqCst), 0, "nobody holds what nobody will use");
        self.calls.load(Ordering::SeqCst)
    }
}

impl Strict {
    pub(super) fn new() -> (Self, Arc<Seen>) {
        let seen = Arc::<Seen>::default();
        (Self { is_ready: false, seen: seen.clone() }, seen)
    }

    fn release(&mut self) -> bool {
        let was_ready = mem::take(&mut self.is_ready);
        self.seen.held.fetch_sub(u32::from(was_ready), Ordering::SeqCst);
        was_ready
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { is_ready: false, seen: self.seen.clone() }
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        self.release();
    }
}

impl Service<Request<String>> for Strict {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if !mem::replace(&mut self.is_ready, true) {
            self.seen.held.fetch_add(1, Ordering::SeqCst);
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        assert!(self.release(), "called without having been ready");
        self.seen.calls.fetch_add(1, Ordering::SeqCst);
        if request.uri() == "/broken" {
            return ready(Err("broken"));
        }
        let response = Response::builder().status(201).header("x-own", "1").header("ratelimit", "own");
        ready(Ok(response.body(format!("made {}", request.body())).unwrap()))
    }
}
