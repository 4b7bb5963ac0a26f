//! Where a worker has its rules from: a database of this process, or another server.

use tidegate_edge::Result;
use tidegate_edge::stream::{Mark, Next};
use tidegate_edge::truth::{Ask, Fields, Granted, Report, Resolution, Return, Returned, Seq};
use tidegate_edge::worker::{Local, LocalChanges, LocalSnapshot, Origin, OriginChanges, OriginSnapshot};

use super::remote::{Remote, RemoteChanges, RemoteSnapshot};

/// Either of them.
#[derive(Debug, Clone)]
pub(crate) enum AnyOrigin {
    Local(Box<Local>),
    Remote(Remote),
}

/// The same of its changes.
#[derive(Debug)]
pub(crate) enum AnyChanges {
    Local(Box<LocalChanges>),
    Remote(Box<RemoteChanges>),
}

/// The same of a snapshot.
#[derive(Debug)]
pub(crate) enum AnySnapshot {
    Local(LocalSnapshot),
    Remote(Box<RemoteSnapshot>),
}

/// What either of them says.
macro_rules! of {
    ($self:ident, $origin:ident => $said:expr) => {
        match $self {
            Self::Local($origin) => $said,
            Self::Remote($origin) => $said,
        }
    };
}

impl Origin for AnyOrigin {
    type Changes = AnyChanges;
    type Snapshot = AnySnapshot;

    async fn changes(&self, worker: &str, after: Option<&Mark>) -> Result<AnyChanges> {
        match self {
            Self::Local(local) => local.changes(worker, after).await.map(|it| AnyChanges::Local(it.into())),
            Self::Remote(remote) => {
                remote.changes(worker, after).await.map(|it| AnyChanges::Remote(it.into()))
            }
        }
    }

    async fn snapshot(&self, fields: Fields, from: Option<&Mark>) -> Result<AnySnapshot> {
        match self {
            Self::Local(local) => local.snapshot(fields, from).await.map(AnySnapshot::Local),
            Self::Remote(remote) => {
                remote.snapshot(fields, from).await.map(|it| AnySnapshot::Remote(it.into()))
            }
        }
    }

    async fn resolve(&self, host: &str, path: &str) -> Result<Resolution> {
        of!(self, origin => origin.resolve(host, path).await)
    }

    async fn grant(&self, ask: Ask) -> Result<Granted> {
        of!(self, origin => origin.grant(ask).await)
    }

    async fn give_back(&self, it: Return) -> Result<Returned> {
        of!(self, origin => origin.give_back(it).await)
    }

    async fn report(&self, report: Report) -> Result<()> {
        of!(self, origin => origin.report(report).await)
    }

    async fn applied(&self, worker: &str, seq: Seq) -> Result<()> {
        of!(self, origin => origin.applied(worker, seq).await)
    }
}

impl OriginChanges for AnyChanges {
    async fn next(&mut self) -> Result<Next> {
        of!(self, changes => changes.next().await)
    }
}

impl OriginSnapshot for AnySnapshot {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        of!(self, snapshot => snapshot.next().await)
    }
}
