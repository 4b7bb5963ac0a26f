//! A follower that keeps every rule, as simply as can be.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_edge::Result;
use tidegate_edge::stream::{Changes, Event, Follower, Mark, Message, Next, Snapshots, Step, Tail};
use tidegate_edge::truth::{Digest, Fields, Place, Position, Seq, Truth};

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(60);

/// Rules by their place, as their canonical JSON.
#[derive(Default)]
pub(crate) struct Replica {
    pub(crate) follower: Follower,
    pub(crate) rules: BTreeMap<Place, String>,
    /// Where all rules were read last, and changes that were applied since.
    pub(crate) loaded: Seq,
    pub(crate) applied: Vec<Seq>,
    pub(crate) reloads: Vec<String>,
    pub(crate) compared: u64,
}

fn field<'a>(json: &'a serde_json::Value, name: &str) -> &'a str {
    json[name].as_str().unwrap_or_else(|| panic!("{name} of {json}"))
}

fn place(body: &str) -> Place {
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    Place { host: field(&json, "host").to_owned(), path: field(&json, "path").to_owned() }
}

impl Replica {
    /// Of all rules that are here.
    pub(crate) fn digest(&self) -> Digest {
        self.rules.values().fold(Digest::default(), |digest, body| {
            let json: serde_json::Value = serde_json::from_str(body).unwrap();
            digest.with(Digest::of(field(&json, "id"), json["version"].as_u64().unwrap(), body))
        })
    }

    /// Takes a message; where to read all rules anew if they are to be.
    #[must_use]
    pub(crate) fn take(&mut self, message: Message) -> Option<Mark> {
        match self.follower.take(message) {
            Step::Wait | Step::Known => {}
            Step::Apply(events) => {
                for event in events {
                    match event {
                        Event::Create { body } => {
                            assert_eq!(
                                self.rules.insert(place(&body), body.clone()),
                                None,
                                "was there before: {body}"
                            );
                        }
                        Event::Update { body } => {
                            let before = self.rules.insert(place(&body), body.clone());
                            assert!(before.is_some_and(|it| it != body), "was not there before: {body}");
                        }
                        Event::Delete { id, place } => {
                            let json = self.rules.remove(&place).expect("it was there");
                            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
                            assert_eq!(field(&json, "id"), id);
                        }
                        other => panic!("{other:?}"),
                    }
                }
                let mark = self.follower.mark().unwrap();
                assert_eq!(self.digest(), mark.digest, "after {}", mark.seq);
                self.applied.push(mark.seq);
            }
            Step::Compare(position) => {
                self.compared += 1;
                assert_eq!((self.rules.len() as u64, self.digest()), (position.count, position.digest));
            }
            Step::Reload { from, reason } => {
                self.reloads.push(reason);
                return Some(from);
            }
        }
        None
    }

    /// Reads all rules, as they are at that place or later.
    pub(crate) async fn reload(&mut self, snapshots: &Snapshots, from: &Mark) {
        self.try_reload(snapshots, from).await.unwrap();
    }

    /// The same where the database may be away.
    pub(crate) async fn try_reload(&mut self, snapshots: &Snapshots, from: &Mark) -> Result<()> {
        let snapshot = snapshots.get(Fields::All, Some(from)).await?;
        let bytes = snapshot.read(0, usize::MAX).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines = text.lines();
        let position: Position = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(&position, snapshot.position());
        self.rules = lines.map(|body| (place(body), body.to_owned())).collect();
        assert_eq!((self.rules.len() as u64, self.digest()), (position.count, position.digest));
        self.follower.loaded(Mark::from(&position));
        self.loaded = position.seq;
        self.applied.clear();
        Ok(())
    }

    /// Follows until a place is reached, or something ends it; whether it was reached.
    pub(crate) async fn follow(
        &mut self,
        changes: &mut Changes,
        snapshots: &Snapshots,
        until: &Mark,
    ) -> bool {
        let is_there = |mark: &Mark| mark.epoch == until.epoch && mark.seq >= until.seq;
        while !self.follower.mark().is_some_and(is_there) {
            match changes.next().await.unwrap() {
                Next::Cut(_) => return false,
                Next::Message(message) => {
                    if let Some(from) = self.take(message) {
                        self.reload(snapshots, &from).await;
                    }
                }
            }
        }
        true
    }
}

/// Follows a database from wherever the replica is until it is where the database is now.
pub(crate) async fn catch_up(replica: &mut Replica, tail: &Tail, truth: &Truth) {
    let (snapshots, until) = (Snapshots::of(truth), truth.position().await.unwrap());
    let following = async {
        loop {
            let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
            replica.follower.cut();
            if replica.follow(&mut changes, &snapshots, &Mark::from(&until)).await {
                break;
            }
        }
    };
    tokio::time::timeout(SOON, following).await.expect("it gets there");
    assert_eq!((replica.rules.len() as u64, replica.digest()), (until.count, until.digest));
}
