//! CPU time and memory of processes, from `/proc`. Several processes count as one server.

use std::fs;

/// The CPU time that processes use after its start.
pub struct CpuClock {
    pids: Vec<u32>,
    start: Option<f64>,
}

impl CpuClock {
    /// Starts the clock.
    pub fn start(pids: &[u32]) -> Self {
        Self { pids: pids.to_vec(), start: cpu_seconds(pids) }
    }

    /// Starts the clock for this process.
    pub fn start_own() -> Self {
        Self::start(&[std::process::id()])
    }

    /// CPU seconds since the start, user and system; NaN without a process.
    pub fn seconds(&self) -> f64 {
        let times = cpu_seconds(&self.pids).zip(self.start);
        times.map_or(f64::NAN, |(now, start)| now - start)
    }
}

fn cpu_seconds(pids: &[u32]) -> Option<f64> {
    sum(pids, |pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Fields are counted after the command, which may contain blanks: utime is 14, stime is 15.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some((ticks(11)? + ticks(12)?) / 100.0)
    })
}

/// Peak resident memory of processes in bytes, summed; `None` without a process.
pub fn peak_rss(pids: &[u32]) -> Option<f64> {
    sum(pids, |pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
    })
}

/// Resets the peak resident memory of processes; returns their current one in bytes.
pub fn forget_peak_rss(pids: &[u32]) -> Option<f64> {
    for pid in pids {
        // 5: see proc(5), clear_refs.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    }
    peak_rss(pids)
}

fn sum(pids: &[u32], of: impl Fn(u32) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = pids.iter().map(|pid| of(*pid)).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
}
