//! What can be set of redirects.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_edge::worker::owner::Owners;
use tidegate_edge::worker::{Hydrate, WorkerOptions};

use crate::address::Address;
use crate::edge::{OpenEdge, Page, Proxies};
use crate::parts::{EdgeReadiness, EdgeSettings, RulesSettings, SingleOptions, Variable};
use crate::settings::parse::{choices, read_by};
use crate::settings::raw::{Leaf, group};
use crate::settings::validate::between;
use crate::settings::{Listen, SettingsError};

group!(RawEdge {
    /// address to serve redirects on, for everybody; port 0 picks a free one (none: this server redirects nobody)
    listen: Leaf<Listen>,
    /// server whose rules are followed, like http://10.0.0.5:8080 (the rules of this one)
    origin: Leaf<String>,
    /// threads that redirect and do nothing else, 1 to 1024 (one for two processors)
    threads: Leaf<NonZeroUsize>,
    /// what this worker is called: no two of one origin (made of the machine and the process)
    name: Leaf<String>,
    /// memory of rules, filter and hosts, in MiB; also CACHE_MAX_HEAP_MB (500)
    max_memory_mb: Leaf<NonZeroUsize>,
    /// of that, what rules for folders may have, in bytes (a quarter)
    max_prefix_bytes: Leaf<NonZeroUsize>,
    /// rules that leave at once when there is no room; also CACHE_EVICTION_BATCH (1000)
    eviction_batch: Leaf<NonZeroUsize>,
    /// how often a worker alone compares the process's memory with that; also CACHE_CHECK_INTERVAL_MS (10s)
    check_interval: Leaf<Duration>,
    /// log each round of evictions; also CACHE_METRICS (true)
    log_evictions: Leaf<bool>,
    /// what is read at the start: keys (rules as they are asked for) or bodies (all that there is room for) (keys)
    hydrate: Leaf<Hydrate>,
    /// how long a request waits for what has to be asked for (1s)
    deadline: Leaf<Duration>,
    /// addresses and networks of proxies whose X-Forwarded-Host is believed, like 10.0.0.0/8,::1 (none)
    trusted_proxies: Leaf<Proxies>,
    /// what 404 says: a text, or @FILE (not found)
    not_found_body: Leaf<String>,
    /// what 410 says: a text, or @FILE (gone)
    gone_body: Leaf<String>,
    /// say in Tidegate-Age how many seconds ago the rules' database was last heard of (false)
    age_header: Leaf<bool>,
    /// when /readyz says 200: loaded (all keys were read once) or connected (and the origin is there) (loaded)
    readiness: Leaf<EdgeReadiness>,
    /// names of all workers that share the rules, with commas between; this one's is one of them (none: it has all)
    of: Leaf<String>,
    /// how many of them keep each rule (1)
    replicas: Leaf<NonZeroUsize>,
});

choices! {
    Hydrate: "keys" Keys, "bodies" Bodies;
}

read_by! {
    String: |text| Ok(text.to_owned());
    Proxies: Proxies::parse;
}

/// What workers of redirects have in their environment already.
const ENVIRONMENT: &[Variable] = &[
    Variable { name: "CACHE_MAX_HEAP_MB", setting: "max_memory_mb", unit: "" },
    Variable { name: "CACHE_EVICTION_BATCH", setting: "eviction_batch", unit: "" },
    Variable { name: "CACHE_CHECK_INTERVAL_MS", setting: "check_interval", unit: "ms" },
    Variable { name: "CACHE_METRICS", setting: "log_evictions", unit: "" },
];

/// A megabyte, and the most of them: a terabyte.
const MB: usize = 1 << 20;
const MAX_MB: usize = MB;

/// More threads than that are on no machine's account.
const MAX_THREADS: usize = 1024;

/// Fewer bytes than this leave no room for anything.
const LEAST_PREFIX_BYTES: usize = 1 << 12;

impl SingleOptions for EdgeSettings {
    const GROUP: &str = "edge";
    const ENVIRONMENT: &[Variable] = ENVIRONMENT;

    type Raw = RawEdge;
    type Open = OpenEdge;
    type Beside = Option<<RulesSettings as SingleOptions>::Open>;

    fn read(raw: RawEdge) -> Result<Option<Self>, SettingsError> {
        let Some(listen) = raw.listen.0 else { return Ok(None) };
        let wrong = |setting: &str, why: &str| SettingsError(format!("`edge.{setting}`: {why}"));
        let name = raw.name.0.unwrap_or_else(name_of_process);
        if !(1..=128).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = "is not allowed: 1 to 128 visible ASCII characters are";
            return Err(wrong("name", &format!("{name:?} {why}")));
        }
        let mut options = WorkerOptions::new(name);
        if let Some(mb) = raw.max_memory_mb.0 {
            if mb.get() > MAX_MB {
                return Err(wrong("max_memory_mb", &format!("{mb} is not allowed: 1 to {MAX_MB} are")));
            }
            options.max_bytes = mb.get() * MB;
        }
        if let Some(bytes) = raw.max_prefix_bytes.0.map(NonZeroUsize::get) {
            let most = options.max_bytes;
            if !(LEAST_PREFIX_BYTES..=most).contains(&bytes) {
                let why = format!("{bytes} is not allowed: {LEAST_PREFIX_BYTES} to {most} are");
                return Err(wrong("max_prefix_bytes", &why));
            }
            options.max_folder_bytes = Some(bytes);
        }
        options.eviction_batch = raw.eviction_batch.0.map_or(options.eviction_batch, NonZeroUsize::get);
        options.check_interval = raw.check_interval.or(options.check_interval);
        options.log_evictions = raw.log_evictions.or(options.log_evictions);
        options.hydrate = raw.hydrate.or(options.hydrate);
        options.deadline = raw.deadline.or(options.deadline);
        let (ms, minute) = (Duration::from_millis(1), Duration::from_secs(60));
        between("edge.deadline", options.deadline, ms, minute)?;
        between("edge.check_interval", options.check_interval, 100 * ms, 60 * minute)?;
        let threads = raw.threads.0.map_or_else(default_threads, NonZeroUsize::get);
        if threads > MAX_THREADS {
            return Err(wrong("threads", &format!("{threads} is not allowed: 1 to {MAX_THREADS} are")));
        }
        options.owners = owners(raw.of.0, raw.replicas.0, &options.name)?;
        let origin = raw.origin.0.map(|url| {
            let why = format!("{url:?} is not a server: http://HOST:PORT and https://HOST:PORT are");
            Address::parse(&url).ok_or_else(|| wrong("origin", &why))
        });
        let page = |setting: &str, text: Option<String>| {
            text.map(|text| Page::read(&text).map_err(|why| wrong(setting, &why))).transpose()
        };
        Ok(Some(Self {
            listen,
            threads,
            origin: origin.transpose()?,
            options,
            trusted_proxies: raw.trusted_proxies.0.unwrap_or_default(),
            not_found: page("not_found_body", raw.not_found_body.0)?,
            gone: page("gone_body", raw.gone_body.0)?,
            has_age_header: raw.age_header.or(false),
            readiness: raw.readiness.or(EdgeReadiness::Loaded),
        }))
    }

    async fn open(&self, rules: &Self::Beside) -> Result<OpenEdge, SettingsError> {
        OpenEdge::start(self, rules.as_ref().map(|rules| rules.origin())).map_err(SettingsError)
    }
}

/// Half of the processors: a thread that has enough to do answers for less than two that are woken for each request, and
/// what the system does for connections needs the others.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}

/// Who keeps which rules, if not everybody all.
fn owners(
    of: Option<String>,
    replicas: Option<NonZeroUsize>,
    own: &str,
) -> Result<Option<Owners>, SettingsError> {
    let Some(of) = of else {
        return match replicas {
            None => Ok(None),
            Some(_) => Err(SettingsError(
                "`edge.replicas`: there are none unless `edge.of` says which workers share the rules"
                    .to_owned(),
            )),
        };
    };
    let names = of.split(',').map(str::trim).filter(|name| !name.is_empty());
    let owners = Owners::new(names, replicas.map_or(1, NonZeroUsize::get));
    let owners = owners.map_err(|error| SettingsError(format!("`edge.of`: {error}")))?;
    if !owners.names().any(|name| name == own) {
        let why = "this worker is none of them: --partition, or `edge.name`, says which it is";
        return Err(SettingsError(format!("`edge.of`: {why}")));
    }
    Ok(Some(owners))
}

/// Not the same for two that run, nor on two machines.
fn name_of_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(64).collect();
    format!("{}-{}", if host.is_empty() { "worker" } else { &host }, std::process::id())
}
