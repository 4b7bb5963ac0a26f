//! A worker that runs, and what its answers are made with.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tidegate_edge::worker::owner::Owners;
use tidegate_edge::worker::{Local, Worker};

use super::answers::Answers;
use super::hot::HotLinks;
use super::origin::AnyOrigin;
use super::proxies::Proxies;
use super::remote::Remote;
use crate::connection::ConnectionMetrics;
use crate::parts::{EdgeReadiness, EdgeSettings};

/// Redirects, open. Clones are one.
#[derive(Debug, Clone)]
pub(crate) struct OpenEdge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    worker: Worker<AnyOrigin>,
    name: String,
    owners: Option<Owners>,
    answers: Answers,
    proxies: Proxies,
    has_age_header: bool,
    readiness: EdgeReadiness,
    connections: ConnectionMetrics,
    hot: HotLinks,
    threads: usize,
}

impl OpenEdge {
    /// Begins to follow the rules of another server, or those of this one. Needs a tokio runtime.
    pub(crate) fn start(settings: &EdgeSettings, rules: Option<Local>) -> Result<Self, String> {
        let origin = match (&settings.origin, rules) {
            (Some(address), _) => AnyOrigin::Remote(Remote::new(address.clone())),
            (None, Some(local)) => AnyOrigin::Local(local.into()),
            (None, None) => {
                let why = "there are no rules to redirect by";
                let how = "say where they are kept by `rules.url`, or whose are followed by `edge.origin`";
                return Err(format!("`edge.listen`: {why}: {how}"));
            }
        };
        let EdgeSettings { options, trusted_proxies, not_found, gone, .. } = settings;
        Ok(Self(Arc::new(Inner {
            worker: Worker::start(origin, options.clone()),
            name: options.name.clone(),
            owners: options.owners.clone(),
            answers: Answers::new(not_found.clone(), gone.clone()),
            proxies: trusted_proxies.clone(),
            has_age_header: settings.has_age_header,
            readiness: settings.readiness,
            connections: ConnectionMetrics::new(),
            hot: HotLinks::start()?,
            threads: settings.threads,
        })))
    }

    #[inline]
    pub(crate) fn worker(&self) -> &Worker<AnyOrigin> {
        &self.0.worker
    }

    /// What it calls itself.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Who keeps which rules, if not everybody all.
    pub(crate) fn owners(&self) -> Option<&Owners> {
        self.0.owners.as_ref()
    }

    /// Which links are hot.
    pub(crate) fn hot(&self) -> &HotLinks {
        &self.0.hot
    }

    /// How many threads redirect, and do nothing else.
    pub(crate) fn threads(&self) -> usize {
        self.0.threads
    }

    pub(crate) fn readiness(&self) -> EdgeReadiness {
        self.0.readiness
    }

    #[inline]
    pub(super) fn answers(&self) -> &Answers {
        &self.0.answers
    }

    pub(super) fn proxies(&self) -> &Proxies {
        &self.0.proxies
    }

    pub(super) fn connections(&self) -> &ConnectionMetrics {
        &self.0.connections
    }

    /// How long ago the truth was last heard of, if answers say so.
    #[inline]
    pub(super) fn age_seconds(&self) -> Option<u64> {
        if !self.0.has_age_header {
            return None;
        }
        self.0.worker.progress().age_ms.map(|ms| ms / 1000)
    }

    /// Puts what is counted of them into a registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        self.0.worker.register_metrics(registry);
        self.0.connections.register(registry, "tidegate_edge");
    }
}
