//! A bare hyper server that answers every request with the same redirect: what there is to pay before anything is looked up.
//! It says where it listens.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// As our server has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service_fn(async |_: Request<_>| Ok::<_, Infallible>(redirect()));
        // A connection that breaks is its client's.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn redirect() -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::FOUND;
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static("https://www.example.com/landing/page-00000000"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}
