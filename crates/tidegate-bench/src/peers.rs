//! Servers as their users have them: built in release mode, beside this binary.
//!
//! A path in the environment is taken as it is: `BENCH_TIDEGATE`,
//! `BENCH_THROTTLECRAB`, `BENCH_FIXED_REDIRECT`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::progress;

/// The version that is measured.
const THROTTLECRAB: &str = "0.4.40";

/// Our server, built from this workspace.
pub(crate) fn tidegate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("BENCH_TIDEGATE") {
        return Ok(path.into());
    }
    let target = target()?;
    progress("building the server");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut build = cargo();
    build.args(["build", "--release", "-p", "tidegate-server", "--bin", "tidegate", "--manifest-path"]);
    run(build.arg(workspace).arg("--target-dir").arg(&target))?;
    found(target.join("release/tidegate"))
}

/// A bare hyper server, of this package.
pub(crate) fn fixed_redirect() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("BENCH_FIXED_REDIRECT") {
        return Ok(path.into());
    }
    let target = target()?;
    progress("building a bare hyper server");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let mut build = cargo();
    build.args(["build", "--release", "--bin", "fixed-redirect", "--manifest-path"]);
    run(build.arg(manifest).arg("--target-dir").arg(&target))?;
    found(target.join("release/fixed-redirect"))
}

/// throttlecrab's, built once and kept.
pub(crate) fn throttlecrab() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("BENCH_THROTTLECRAB") {
        return Ok(path.into());
    }
    let folder = target()?.join(format!("peers/throttlecrab-server-{THROTTLECRAB}"));
    let binary = folder.join("bin/throttlecrab-server");
    if binary.exists() {
        return Ok(binary);
    }
    // Its build goes on without and fails later, for another reason.
    let protoc = std::env::var_os("PROTOC").unwrap_or_else(|| "protoc".into());
    let has_protoc = Command::new(protoc).arg("--version").output().is_ok_and(|ran| ran.status.success());
    ensure!(has_protoc, "throttlecrab-server is not built without protoc: apt-get install protobuf-compiler");
    progress("building throttlecrab-server, once");
    let mut install = cargo();
    install.args(["install", "throttlecrab-server", "--locked", "--version", THROTTLECRAB]);
    run(install.arg("--root").arg(&folder).arg("--target-dir").arg(folder.join("build")))?;
    found(binary)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().context("cargo does not start")?;
    ensure!(status.success(), "cargo failed, {status}");
    Ok(())
}

fn found(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        bail!("{} was not built", path.display());
    }
    Ok(path)
}

/// Where cargo put this binary: `target`, of `target/release/tidegate-bench`.
fn target() -> Result<PathBuf> {
    let binary = std::env::current_exe().context("where this binary is")?;
    let target = binary.parent().and_then(Path::parent).context("not in a folder of cargo's")?;
    Ok(target.to_owned())
}
