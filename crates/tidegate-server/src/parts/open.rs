//! How parts come to be open: for a server, and for single requests.

use tidegate::Tidegate;
use tidegate::store::{Declarations, PartKind};

use super::{About, EdgeSettings, PartSettings, Parts, RulesSettings, SingleOptions};
use crate::settings::{Settings, SettingsError};

/// What is done to a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing at all: not even a marker is written.
    Read,
    Write,
}

impl Parts {
    /// What `settings` say, for a server: it is declared, and what is implied is as others
    /// declare it.
    pub(crate) async fn for_server(settings: &mut Settings) -> Result<Self, String> {
        // One that somebody else has ends the start before anything is declared.
        let rules = open_single(settings.rules.as_ref(), &()).await.map_err(text)?;
        let edge = open_single(settings.edge.as_ref(), &rules).await.map_err(text)?;
        let gate = settings.store.open().await.map_err(text)?;
        // One that is away now declares nothing; what is implied is by its defaults then.
        if let Ok(declared) = gate.declarations().await {
            let readable: Vec<_> = declared.into_iter().filter(PartSettings::can_read).collect();
            settings.parts.adopt(&readable).map_err(text)?;
        }
        let parts = Self { rules, edge, ..Self::open(gate, &settings.parts).map_err(text)? };
        declare(&parts.gate, settings.store.options.declarations).await?;
        Ok(parts)
    }

    /// What single requests are about, each by its kind and name; other parts too, unless
    /// nothing may be written.
    pub(crate) async fn for_requests(
        mut settings: Settings,
        requested: &[(PartKind, &str)],
        access: Access,
    ) -> Result<Self, String> {
        let gate = settings.open_for(requested, access).await?;
        let parts = Self::open(gate, &settings.parts).map_err(text)?;
        parts.gate.declare().await.map_err(text)?;
        Ok(parts)
    }
}

impl Parts {
    /// The same with rules, if there are to be any.
    pub async fn with_rules(self, settings: Option<&RulesSettings>) -> Result<Self, SettingsError> {
        Ok(Self { rules: open_single(settings, &()).await?, ..self })
    }

    /// The same with redirects, by those rules or by those of another server, if there are to be any.
    pub async fn with_edge(self, settings: Option<&EdgeSettings>) -> Result<Self, SettingsError> {
        Ok(Self { edge: open_single(settings, &self.rules).await?, ..self })
    }
}

async fn open_single<O: SingleOptions>(
    settings: Option<&O>,
    beside: &O::Beside,
) -> Result<Option<O::Open>, SettingsError> {
    match settings {
        Some(settings) => settings.open(beside).await.map(Some),
        None => Ok(None),
    }
}

impl Settings {
    /// The store, for who has single requests about `requested`. What is written down here
    /// goes before what the store declares, and what neither says is not guessed.
    pub(crate) async fn open_for(
        &mut self,
        requested: &[(PartKind, &str)],
        access: Access,
    ) -> Result<Tidegate, String> {
        // Whoever has a request changes nothing for the servers.
        self.store.options.declarations = Declarations::ReadOnly;
        self.store.options.read_only = access == Access::Read;
        let gate = self.store.open().await.map_err(text)?;
        // Whoever talks to a store wants its answer, not that of an outage policy.
        gate.store().check().map_err(text)?;
        let is_requested = |kind: PartKind, name: &str| {
            requested.iter().any(|(other, other_name)| kind == *other && kind.is_same(name, other_name))
        };
        if self.store.url.scheme() != "memory" {
            let mut declared = gate.declarations().await.map_err(text)?;
            // What a later version declares and this one cannot read matters to who requests it.
            declared.retain(|it| is_requested(it.kind, it.name.as_str()) || PartSettings::can_read(it));
            self.parts.only_declared(&declared).map_err(text)?;
            for (kind, name) in requested {
                if let Some(about) = About::of(*kind).filter(|_| !self.parts.has(*kind, name)) {
                    return Err(undeclared(about, name));
                }
            }
        }
        // What is open looks after itself in the background, and writes.
        self.parts.retain(|kind, name, _| access == Access::Write || is_requested(kind, name));
        self.parts.for_one_request();
        Ok(gate)
    }
}

/// Nobody has said what it is.
fn undeclared(About { full_noun, group, example, .. }: &About, name: &str) -> String {
    format!(
        "the store declares no {full_noun} {name:?}, and it is not written down here: a server that has it declares it; or \
         say what it is, by --config FILE or --set {group}.{name}.{example}"
    )
}

/// Declares what is served; who is strict does not start with other settings than are
/// declared, nor without knowing them.
async fn declare(gate: &Tidegate, policy: Declarations) -> Result<(), String> {
    match (gate.declare().await, policy) {
        (Err(error), Declarations::Strict) if error.is_transient() => Err(format!(
            "`declarations`: strict, and what the store declares cannot be known while it is away: {error}"
        )),
        (Err(error), Declarations::Strict) => Err(format!(
            "`declarations`: strict, and {error}; use the declared settings, or change them by `tidegate declare \
             --replace`"
        )),
        // It is declared when the store is there.
        _ => Ok(()),
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
