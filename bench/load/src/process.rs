//! CPU time and memory of another process, from `/proc`.

use std::fs;

/// CPU seconds of a process so far, user and system; 0 when it cannot be read.
pub fn cpu_seconds(pid: u32) -> f64 {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return 0.0 };
    // Fields count from after the command, which may hold blanks: utime and stime are 14 and 15.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Peak resident memory of a process in bytes; 0 when it cannot be read.
pub fn peak_rss(pid: u32) -> u64 {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return 0 };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Lets the peak resident memory of a process begin anew; gives its present one in bytes, 0 when it
/// cannot be read.
pub fn forget_peak_rss(pid: u32) -> u64 {
    // 5: see proc(5), clear_refs.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    peak_rss(pid)
}
