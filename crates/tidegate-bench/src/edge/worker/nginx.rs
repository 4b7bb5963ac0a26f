//! nginx with a `map` of the same links, in its leanest form: Debian's package, a free port, a temporary folder, one worker, no
//! log.
//!
//! It is given the links of one host, which it tells apart by `server_name`, so that its keys are paths alone. It sends what we
//! send, and what it cannot leave out: `Server`, `Connection`, a type and a page of 138 bytes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tidegate::clock::monotonic;

use super::links::{HOST, Links, destination, path};
use crate::cpu;

/// What figures beside it are called.
pub(super) const NGINX: &str = "nginx map";

/// The same where it is not there.
pub(super) const NO_NGINX: &str = "nginx, which is not installed: apt-get install nginx-light";

/// How long it may take to read all links.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where Debian has it: not everybody's path leads there.
const PROGRAM: &str = "/usr/sbin/nginx";

/// A running nginx; dropping it stops it.
pub(super) struct Nginx {
    master: Child,
    address: SocketAddr,
    config: String,
}

impl Nginx {
    pub(super) fn is_installed() -> bool {
        std::path::Path::new(PROGRAM).exists()
    }

    /// Starts one and waits until it redirects.
    pub(super) fn start(links: &Links) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port for nginx")?;
        let address = listener.local_addr()?;
        drop(listener);
        let folder = links.folder().join("nginx");
        std::fs::create_dir_all(&folder)?;
        let config = folder.join("nginx.conf").display().to_string();
        std::fs::write(&config, configured(&folder.display().to_string(), links, address))?;
        let mut command = Command::new(PROGRAM);
        command.args(["-c", &config]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let master = command.spawn().context("nginx does not start")?;
        let mut nginx = Self { master, address, config };
        nginx.wait_until(0, &destination(0))?;
        Ok(nginx)
    }

    /// Waits until a link leads there.
    pub(super) fn wait_until(&mut self, number: usize, destination: &str) -> Result<()> {
        let deadline = monotonic() + PATIENCE;
        while location(self.address, number).ok().as_deref() != Some(destination) {
            if let Some(status) = self.master.try_wait()? {
                bail!(
                    "nginx has ended, {status}: {}",
                    std::fs::read_to_string(self.log()).unwrap_or_default()
                );
            }
            ensure!(monotonic() < deadline, "nginx does not redirect within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn log(&self) -> String {
        self.config.replace("nginx.conf", "error.log")
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// All of its processes.
    pub(super) fn pids(&self) -> Result<Vec<u32>> {
        let master = self.master.id();
        Ok(std::iter::once(master).chain(cpu::children(master)?).collect())
    }

    /// `nginx -s reload`: what the command itself has used. It reads all links, to find out whom to tell.
    pub(super) fn reload(&self) -> Result<Duration> {
        let before = cpu::used_by_ended_children(std::process::id())?;
        let status = Command::new(PROGRAM).args(["-c", &self.config, "-s", "reload"]).status()?;
        ensure!(status.success(), "nginx -s reload: {status}");
        Ok(cpu::used_by_ended_children(std::process::id())?.saturating_sub(before))
    }

    /// What all of its processes have used, also those that have ended.
    pub(super) fn used(&self) -> Result<Duration> {
        let master = self.master.id();
        let mut used = cpu::used_by(master)? + cpu::used_by_ended_children(master)?;
        for worker in cpu::children(master)? {
            used += cpu::used_by(worker)?;
        }
        Ok(used)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Killed, it would leave its worker behind. Nothing can be done about one that is gone already.
        let _ = Command::new("kill").args(["-TERM", &self.master.id().to_string()]).status();
        let _ = self.master.wait();
    }
}

/// Where a link leads now, over a connection of its own.
pub(super) fn location(address: SocketAddr, number: usize) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let path = path(number);
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let found = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("location").then_some(value)
    });
    Ok(found.with_context(|| format!("no location in {answer:?}"))?.to_owned())
}

fn configured(folder: &str, links: &Links, address: SocketAddr) -> String {
    // Of the sizes that it accepts without a warning the one with the least memory; lookups go through some four links.
    let buckets = (links.count / 4).next_power_of_two();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|what| format!("    {what}_temp_path {folder}/{what};\n"))
        .collect();
    format!(
        "daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    server_tokens off;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
{temporary}    map_hash_max_size {buckets};
    map_hash_bucket_size 1024;
    map $uri $to {{ include {map}; }}
    server {{ listen {address} default_server; return 404; }}
    server {{
        listen {address};
        server_name {HOST};
        add_header cache-control no-store;
        if ($to) {{ return 302 $to; }}
        return 404;
    }}
}}
",
        map = links.map().display(),
    )
}
