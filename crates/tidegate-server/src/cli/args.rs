//! What can be written behind commands of all kinds.

use std::path::PathBuf;

use clap::Args;
use tidegate::store::{DEFAULT_SPACE, PartKind};

use crate::address::encoded;
use crate::parts::About;
use crate::settings::{Flag, Settings, Sources};

pub(super) const SERVE_EXAMPLES: &str = "\
Settings: defaults, then the file, then the environment, then flags; the later wins.
In the environment limits.api.rate is TIDEGATE_LIMITS__API__RATE.
`tidegate serve --help` lists all settings.

Examples:
  tidegate serve --listen 127.0.0.1:0
  tidegate serve --config tidegate.yaml --set limits.api.rate=100/m
  TIDEGATE_STORE=redis://127.0.0.1:6379 tidegate serve
  tidegate serve --rules sqlite:/var/lib/tidegate/rules.db --edge-listen 0.0.0.0:80";

/// The long help of `serve`: everything that can be set.
pub(super) fn settings_help() -> String {
    let settings = Settings::list();
    let width = settings.iter().map(|(path, _)| path.len()).max().unwrap_or_default();
    let rows: String = settings.iter().map(|(path, about)| format!("  {path:width$}  {about}\n")).collect();
    format!("{SERVE_EXAMPLES}\n\nAll settings, with their defaults:\n{rows}")
}

/// What is said behind the options of a command: what its exit codes mean, if it has a no, and how
/// it is written.
pub(super) fn help(codes: &str, examples: &[&str]) -> String {
    let codes = match codes {
        "" => String::new(),
        codes => format!("Exit codes: {codes}, 2 wrong usage or no answer.\n\n"),
    };
    let s = if examples.len() == 1 { "" } else { "s" };
    format!("{codes}Example{s}:\n  tidegate {}", examples.join("\n  tidegate "))
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Address to listen on; port 0 picks a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where state is kept: memory:, redis://, rediss://, redis-cluster:// [default: memory:]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where the rules of redirects are kept: sqlite:FILE or postgres://… [default: this server has no rules]
    #[arg(long, value_name = "URL")]
    rules: Option<String>,
    /// Address to serve redirects on, for everybody; port 0 picks a free one [default: this server redirects nobody]
    #[arg(long, value_name = "ADDR")]
    edge_listen: Option<String>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Args)]
pub(super) struct SettingsArgs {
    /// YAML file with settings; also TIDEGATE_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any setting, like limits.api.rate=5/s; may be repeated
    #[arg(long, value_name = "SETTING=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

/// Splits `path=value`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) => Ok((path.trim().to_owned(), value.to_owned())),
        None => Err("SETTING=VALUE is expected, like limits.api.rate=5/s".to_owned()),
    }
}

impl SettingsArgs {
    /// Where settings come from, on this store.
    pub(super) fn sources_on(&self, store: &str) -> Sources {
        let mut sources = self.sources();
        sources.flags.push(flag("--store", "store.url", store));
        sources
    }

    /// The settings, on this store.
    pub(super) fn load_on(&self, store: &str) -> Result<Settings, String> {
        Settings::load(&self.sources_on(store)).map_err(super::message)
    }

    pub(super) fn sources(&self) -> Sources {
        let flags = self.set.iter().map(|(path, value)| flag("--set", path, value));
        Sources {
            file: self.config.clone(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                // What is not UTF-8 is in no setting's range; it is shown as it can be.
                .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
                .collect(),
            flags: flags.collect(),
        }
    }
}

pub(super) fn flag(given_as: &'static str, path: &str, value: &str) -> Flag {
    Flag { given_as, path: path.to_owned(), value: value.to_owned() }
}

impl ServeArgs {
    pub(super) fn sources(&self) -> Sources {
        let mut sources = self.settings.sources();
        sources.flags.extend(self.listen.iter().map(|listen| flag("--listen", "listen", listen)));
        sources.flags.extend(self.store.iter().map(|url| flag("--store", "store.url", url)));
        sources.flags.extend(self.rules.iter().map(|url| flag("--rules", "rules.url", url)));
        sources.flags.extend(self.edge_listen.iter().map(|it| flag("--edge-listen", "edge.listen", it)));
        sources
    }
}

/// Whatever comes before them, they are shown behind what a command has of its own.
pub(super) const LAST: usize = 900;

#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    /// The server
    #[arg(long, display_order = LAST, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    pub(super) server: String,
    /// Use this store directly: by its declarations, or by what --config, the environment and --set say
    #[arg(long, display_order = LAST + 1, value_name = "URL", conflicts_with = "server")]
    store: Option<String>,
    /// YAML file with settings, with --store
    #[arg(long, display_order = LAST + 2, value_name = "FILE", requires = "store")]
    config: Option<PathBuf>,
    /// Any setting, like limits.api.rate=5/s, with --store; may be repeated
    #[arg(long, display_order = LAST + 3, requires = "store")]
    #[arg(value_name = "SETTING=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Answer in JSON
    #[arg(long, display_order = LAST + 4)]
    pub(super) json: bool,
}

/// A space, and whom to talk to about it.
#[derive(Debug, Args)]
pub(super) struct SpaceArgs {
    /// The space
    #[arg(long, default_value = DEFAULT_SPACE)]
    pub(super) space: String,
    #[command(flatten)]
    pub(super) target: TargetArgs,
}

impl SpaceArgs {
    /// The space's address.
    pub(super) fn path(&self, kind: PartKind) -> String {
        let group = About::of(kind).map_or(kind.as_str(), |about| about.group);
        format!("/v1/{group}/{}", encoded(&self.space))
    }
}

impl TargetArgs {
    /// Where settings come from, if a store is used directly.
    pub(super) fn direct(&self) -> Option<Sources> {
        let store = self.store.as_ref()?;
        let settings = SettingsArgs { config: self.config.clone(), set: self.set.clone() };
        Some(settings.sources_on(store))
    }
}
