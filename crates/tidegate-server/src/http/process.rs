//! What the system knows of this process, by the names that Prometheus's own clients use, and
//! what was built. Read whenever metrics are; where there is no `/proc` it is left out.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;

/// Reads `/proc/self`.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(used) = Used::now() {
            for (name, help, value) in [
                ("process_resident_memory_bytes", "Memory that is resident.", Some(used.resident_bytes)),
                ("process_virtual_memory_bytes", "Memory that is mapped.", Some(used.virtual_bytes)),
                ("process_start_time_seconds", "When it started, since 1970.", Some(used.started_seconds)),
                ("process_open_fds", "File descriptors that are open.", used.open_fds),
                ("process_max_fds", "File descriptors that may be open.", used.max_fds),
            ] {
                let Some(gauge) = value.map(ConstGauge::new) else { continue };
                gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
            }
            let (name, help) = ("process_cpu_seconds", "Time of processors, of user and system.");
            let cpu = ConstCounter::new(used.cpu_seconds);
            cpu.encode(encoder.encode_descriptor(name, help, None, cpu.metric_type())?)?;
        }
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        let help = "What was built.";
        build.encode(encoder.encode_descriptor("tidegate_build", help, None, build.metric_type())?)
    }
}

/// Memory that is resident, if the system says it.
pub(super) fn resident_bytes() -> Option<u64> {
    Used::now().map(|used| used.resident_bytes as u64)
}

struct Used {
    cpu_seconds: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    started_seconds: f64,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
}

impl Used {
    #[cfg(not(target_os = "linux"))]
    fn now() -> Option<Self> {
        None
    }

    #[cfg(target_os = "linux")]
    fn now() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // Behind the name of the program, which may be anything, in brackets.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // As proc(5) counts them: the first of these is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let system = fs::read_to_string("/proc/stat").ok()?;
        let booted =
            system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok())?;
        let limits = fs::read_to_string("/proc/self/limits").ok();
        let max_fds = limits.and_then(|limits| {
            let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
            line.split_whitespace().next()?.parse().ok()
        });
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * rustix::param::page_size() as f64,
            started_seconds: booted + field(22)? / ticks,
            // Without the one that reads them.
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1) as f64),
            max_fds,
        })
    }
}
