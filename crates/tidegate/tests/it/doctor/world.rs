//! A store with every room in use, for doctors to look at.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::ManualClock;
use tidegate::doctor::{Doctor, DoctorOptions, Report};
use tidegate::hot::{Edit, Hot, HotOptions};
use tidegate::limit::{LeaseOptions, Limit, LimitOptions, Period, Suppressed};
use tidegate::run::{RunOptions, RunState, Runs, Update};
use tidegate::session::{Reap, SessionOptions, Sessions};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{calendar, sliding, token};
use tidegate::{Cost, Key, Name, Tidegate};

pub(crate) fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

/// Every room on one store, in a namespace.
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) options: StoreOptions,
    pub(crate) gate: Tidegate,
    pub(crate) limits: Vec<Limit>,
    pub(crate) leased: Limit,
    pub(crate) hot: Hot,
    /// One that is spread over partitions of its own.
    pub(crate) links: Hot,
    /// One that only counts.
    pub(crate) views: Hot,
    /// And one whose counts are gathered.
    pub(crate) gathered: Hot,
    pub(crate) sessions: Sessions,
    pub(crate) runs: Runs,
    pub(crate) others: Runs,
}

/// Where, and by which clock.
pub(crate) fn options(namespace: &str, partitions: Option<u32>, clock: Option<&ManualClock>) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.namespace = (!namespace.is_empty()).then(|| Name::new(namespace).unwrap());
    options.partitions = partitions;
    if let Some(clock) = clock {
        options.clock = clock.clone().into();
    }
    options
}

/// As fast as it goes.
pub(crate) fn quick() -> DoctorOptions {
    DoctorOptions::default().keys_per_second(None)
}

impl World {
    pub(crate) async fn open(url: &str, options: StoreOptions) -> Self {
        let gate = Tidegate::open_with(url, options.clone()).await.unwrap();
        let plain = LimitOptions::default();
        let suppressed = Suppressed::new(sliding(1000, 60, 600), 1.5).unwrap();
        let mut prefixed = plain.clone();
        prefixed.prefix = Some("my:app".to_owned());
        let limits = vec![
            gate.limit("sliding", sliding(1000, 60, 600), plain.clone()).unwrap(),
            gate.limit("rate_limit", calendar(1000, Period::Hour), plain.clone()).unwrap(),
            gate.limit("bucket", token("1000/m", 1000), plain.clone()).unwrap(),
            gate.limit("soft", suppressed, plain.clone()).unwrap(),
            gate.limit("mine", sliding(1000, 60, 600), prefixed).unwrap(),
        ];
        let mut lease = LeaseOptions::default();
        lease.nodes = NonZeroU32::new(2).unwrap();
        let mut leasing = plain;
        leasing.lease = Some(lease);
        let leased = gate.limit("leased", sliding(100_000, 60, 600), leasing).unwrap();
        let hot = gate.hot("main", HotOptions::new().hot_threshold(3).max_tracked(20)).unwrap();
        let links = gate.hot("links", HotOptions::new().hot_threshold(2).partitions(3)).unwrap();
        let views = HotOptions::new().hot_threshold(3).max_tracked(20).max_members_per_page(0);
        let gathered = views.clone().partitions(2).gather(Duration::from_secs(60));
        let views = gate.hot("views", views).unwrap();
        let gathered = gate.hot("gathered", gathered).unwrap();
        let sessions = SessionOptions::new().reap(Reap::Claims).max_attempts(1);
        let sessions = gate.sessions("main", sessions).unwrap();
        let runs = gate.runs("main", RunOptions::default()).unwrap();
        let others = RunOptions::new().prefix("a:{b}%".to_owned());
        let others = gate.runs("nightly", others).unwrap();
        gate.declare().await.unwrap();
        let url = url.to_owned();
        Self { url, options, gate, limits, leased, hot, links, views, gathered, sessions, runs, others }
    }

    /// A bit of everything, with other subjects for other numbers.
    pub(crate) async fn use_all(&self, number: u64) {
        self.use_limits(number).await;
        self.use_pages(number).await;
        self.use_sessions(number).await;
        self.use_runs(&self.runs, number).await;
        self.use_runs(&self.others, number).await;
    }

    pub(crate) async fn use_limits(&self, number: u64) {
        let (user, hour) = (format!("user:{number}"), Duration::from_secs(3600));
        let user = key(&user);
        for (i, limit) in self.limits.iter().enumerate() {
            let taken = limit.take(user, Cost::ONE).await.unwrap();
            if number.is_multiple_of(2)
                && let Some(receipt) = taken.receipt()
            {
                limit.refund(user, receipt).await.unwrap();
            }
            if i < 3 {
                limit.set_override(user, "900/m".parse().unwrap(), hour).await.unwrap();
                if number % 3 == 2 {
                    limit.clear_override(user).await.unwrap();
                }
            }
            if i < 2 {
                for id in ["a", "b", "c"] {
                    limit.reserve(user, id, Cost::ONE, Duration::from_secs(30)).await.unwrap();
                }
                limit.commit(user, "a").await.unwrap();
                limit.release(user, "b").await.unwrap();
            }
            if number % 7 == 6 {
                limit.reset(user).await.unwrap();
            }
        }
        self.limits[1].take(Key::EVERYONE, Cost::ONE).await.unwrap();
        for _ in 0..100 {
            self.leased.take(user, Cost::ONE).await.unwrap();
        }
    }

    pub(crate) async fn use_pages(&self, number: u64) {
        for edit in 0..4 {
            let (page, id) = (format!("page:{}", number % 40), format!("{number}-{edit}"));
            self.hot.record(&Edit::new(key(&page), &id, "somebody")).await.unwrap();
            self.links.record(&Edit::new(key(&page), &id, "somebody")).await.unwrap();
        }
        let quiet = format!("quiet {number}");
        self.hot.record(&Edit::new(key(&quiet), "1", "somebody")).await.unwrap();
        self.links.record(&Edit::new(key(&quiet), "1", "somebody")).await.unwrap();
        self.views.count(key(&format!("page:{}", number % 40)), 4).await.unwrap();
        self.views.count(key(&quiet), 1).await.unwrap();
        self.gathered.count(key(&format!("page:{}", number % 40)), 4).await.unwrap();
        self.gathered.count(key(&quiet), 1).await.unwrap();
        self.gathered.flush().await.unwrap();
        if number % 5 == 4 {
            self.views.remove(key(&quiet)).await.unwrap();
            self.hot.remove(key(&format!("page:{}", number % 40))).await.unwrap();
            self.links.cleanup().await.unwrap();
        }
    }

    pub(crate) async fn use_sessions(&self, number: u64) {
        let (channel, tab) = (format!("channel {number}"), key("tab"));
        let activated = self.sessions.activate(key(&channel), "{}", Some(tab)).await.unwrap();
        let id = activated.into_result().unwrap().id;
        let _ = self.sessions.heartbeat(id, tab).await.unwrap();
        if number % 2 == 1 {
            let _ = self.sessions.disconnect(id, tab).await.unwrap();
        }
        if number % 4 == 3 {
            let _ = self.sessions.delete(id).await.unwrap();
        }
        if number % 8 == 5 {
            let _ = self.sessions.resume(id, tab).await.unwrap();
        }
    }

    pub(crate) async fn use_runs(&self, runs: &Runs, number: u64) {
        let run = format!("manual_{number}T14:30:00+00:00");
        let run = key(&run);
        // It may have ended before.
        let _ = runs.start(run).await.unwrap();
        let update = Update::new().field("note", "here").total(10).state(RunState::Processing);
        let _ = runs.update(run, None, &update).await.unwrap();
        let _ = runs.processed(run, None, &[key("1"), key("2")]).await.unwrap();
        let _ = runs.failed(run, None, key("3"), "timeout", key("call-1")).await.unwrap();
        let _ = runs.task_started(run, None, key("process:docket")).await.unwrap();
        match number % 4 {
            1 => drop(runs.finish(run, None, RunState::Succeeded).await.unwrap()),
            2 => drop(runs.delete(run, None).await.unwrap()),
            3 => drop(runs.processed(run, None, &[key("3")]).await.unwrap()),
            _ => {}
        }
    }

    pub(crate) async fn doctor(&self) -> Doctor {
        Doctor::open(&self.url, &self.options).await.unwrap()
    }

    pub(crate) async fn check(&self) -> Report {
        self.try_check().await.unwrap()
    }

    pub(crate) async fn try_check(&self) -> tidegate::Result<Report> {
        Doctor::open(&self.url, &self.options).await?.check(&quick(), |_| {}).await
    }

    pub(crate) async fn fix(&self) -> Report {
        self.doctor().await.check(&quick().fix(true), |_| {}).await.unwrap()
    }
}

/// Fails, and says what is wrong.
pub(crate) fn assert_well(report: &Report, when: &str) {
    assert_eq!(report.defects, [], "{when}");
    assert!(report.is_well(), "{when}");
}
