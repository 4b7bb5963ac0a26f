//! Servers end with the test that started them, however it ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use tidegate::testkit::RedisServer;

/// This test starts itself again as a process that starts a server, and kills it.
#[test]
fn servers_and_their_folders_end_with_a_killed_test() {
    const ROLE: &str = "TIDEGATE_TEST_IS_THE_VICTIM";
    if std::env::var_os(ROLE).is_some() {
        let server = RedisServer::start();
        println!("\nstarted {} {}", server.pid(), server.dir().display());
        loop {
            std::thread::park();
        }
    }
    let name = "keeper::servers_and_their_folders_end_with_a_killed_test";
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let started = lines.map(Result::unwrap).find(|line| line.starts_with("started ")).unwrap();
    let [_, pid, dir] = started.split(' ').collect::<Vec<_>>()[..] else { panic!("{started}") };
    assert!(std::path::Path::new(dir).exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    let wait = format!("tail --pid={pid} -f /dev/null; while [ -e {dir} ]; do :; done");
    let gone = Command::new("timeout").args(["20", "sh", "-c", &wait]).status().unwrap();
    assert!(gone.success(), "server {pid} or its folder {dir} outlived its test");
}
