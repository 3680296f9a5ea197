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

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(process) = Process::myself() else { return Ok(()) };
        let Ok(stat) = process.stat() else { return Ok(()) };
        let ticks = procfs::ticks_per_second() as f64;
        let limit = process.limits().ok().map(|limits| limits.max_open_files.soft_limit);
        let most_files = limit.and_then(|limit| match limit {
            LimitValue::Value(value) => i64::try_from(value).ok(),
            LimitValue::Unlimited => None,
        });
        let open_files = process.fd_count().ok().map(|count| count as i64);
        let started = procfs::boot_time_secs().ok();
        let started = started.map(|booted| booted as f64 + stat.starttime as f64 / ticks);
        let cpu = ConstCounter::new((stat.utime + stat.stime) as f64 / ticks);
        let help = "Processor time of user and system";
        let kind = EncodeMetric::metric_type(&cpu);
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, kind)?)?;
        let mut gauge = |name, help, value: Option<f64>| match value {
            Some(value) => encode_gauge(&mut encoder, name, help, value),
            None => Ok(()),
        };
        let maybe = |value: Option<i64>| value.map(|value| value as f64);
        let resident = (stat.rss * procfs::page_size()) as i64;
        gauge("process_resident_memory_bytes", "Resident memory", Some(resident as f64))?;
        gauge("process_virtual_memory_bytes", "Virtual memory", Some(stat.vsize as i64 as f64))?;
        gauge("process_threads", "Threads", Some(stat.num_threads as f64))?;
        gauge("process_open_fds", "Open file descriptors", maybe(open_files))?;
        gauge("process_max_fds", "Most file descriptors", maybe(most_files))?;
        gauge("process_start_time_seconds", "When it was started, since 1970", started)
    }
}

/// Encodes a gauge with this value.
pub(super) fn encode_gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    let kind = EncodeMetric::metric_type(&gauge);
    gauge.encode(encoder.encode_descriptor(name, help, None, kind)?)
}
