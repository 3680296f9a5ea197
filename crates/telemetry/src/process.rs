//! Metrics of the process, with the names that all exporters use, read at each scrape.
//!
//! Values that the system does not provide are left out.

use std::fmt;

use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Resident memory of this process, in bytes; `None` = the system does not provide it.
pub fn resident_bytes() -> Option<u64> {
    let pages = Process::myself().ok()?.statm().ok()?.resident;
    Some(pages * procfs::page_size())
}

/// Reads the metrics of this process from the system.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

/// Values of one read.
struct Reading {
    cpu_seconds: f64,
    resident_bytes: i64,
    virtual_bytes: i64,
    threads: i64,
    open_files: Option<i64>,
    most_files: Option<i64>,
    started: Option<f64>,
}

impl Reading {
    fn now() -> Option<Self> {
        let process = Process::myself().ok()?;
        let stat = process.stat().ok()?;
        let ticks = procfs::ticks_per_second() as f64;
        let most_files =
            process.limits().ok().and_then(|limits| match limits.max_open_files.soft_limit {
                LimitValue::Value(value) => i64::try_from(value).ok(),
                LimitValue::Unlimited => None,
            });
        let booted = procfs::boot_time_secs().ok();
        Some(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
            resident_bytes: (stat.rss * procfs::page_size()) as i64,
            virtual_bytes: stat.vsize as i64,
            threads: stat.num_threads,
            open_files: process.fd_count().ok().map(|count| count as i64),
            most_files,
            started: booted.map(|booted| booted as f64 + stat.starttime as f64 / ticks),
        })
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(read) = Reading::now() else { return Ok(()) };
        let cpu = ConstCounter::new(read.cpu_seconds);
        let help = "Processor time of user and system";
        let kind = EncodeMetric::metric_type(&cpu);
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, kind)?)?;
        let mut gauge = |name, help, value: Option<f64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            let kind = EncodeMetric::metric_type(&gauge);
            gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)
        };
        let some = |value: i64| Some(value as f64);
        let maybe = |value: Option<i64>| value.map(|value| value as f64);
        gauge("process_resident_memory_bytes", "Resident memory", some(read.resident_bytes))?;
        gauge("process_virtual_memory_bytes", "Virtual memory", some(read.virtual_bytes))?;
        gauge("process_threads", "Threads", some(read.threads))?;
        gauge("process_open_fds", "Open file descriptors", maybe(read.open_files))?;
        gauge("process_max_fds", "Most file descriptors", maybe(read.most_files))?;
        gauge("process_start_time_seconds", "When it was started, since 1970", read.started)
    }
}
