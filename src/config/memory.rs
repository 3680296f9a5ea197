//! The memory limit of the process, and the default shares of its parts.
//!
//! The limit is a size or a percentage of the available memory: of the machine or of the control group
//! of the process, whichever is smaller. Sizes set by hand must fit into the limit. It is enforced by
//! the server, not here.

use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::raw::Raw;
use super::units::parse_size;
use crate::api::RequestMemory;
use crate::limits::{
    MAX_BODY_BYTES, MAX_BODY_BYTES_IN_FLIGHT, MAX_DECODED_BYTES, MAX_DECODED_BYTES_IN_FLIGHT,
    MAX_LIST_BYTES, MAX_METADATA_BYTES, MAX_READ_RESPONSE_BYTES, MAX_REQUEST_REGEX_BYTES,
};
use crate::model::ShownSize;

/// The program does not work with less memory.
const LEAST: u64 = 128 << 20;
/// Name of the setting.
const LIMIT: &str = "memory-limit";

/// The memory limit of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryConfig {
    /// Bytes that the process may take.
    pub limit: u64,
}

impl MemoryConfig {
    pub(super) fn from_raw(raw: &Raw) -> Result<Self, ConfigError> {
        Ok(Self { limit: raw.parsed(LIMIT, |text| limit_of(text, available))? })
    }

    /// What requests may hold.
    pub fn of_requests(&self) -> RequestMemory {
        RequestMemory {
            limit: self.limit,
            queries: self.queries(),
            patterns: self.patterns(),
            bodies: self.bodies(),
            decoded: self.decoded(),
            read_answer: self.read_answer(),
        }
    }

    /// Approximate bytes of points in memory at which a flush begins: an eighth, at most 512 MiB. Up to
    /// four times as many may exist.
    pub fn flush(&self) -> u64 {
        (self.limit / 8).min(512 << 20)
    }

    /// Bytes that one query may hold: a quarter, at most 2 GiB.
    pub fn query(&self) -> u64 {
        (self.limit / 4).min(2 << 30)
    }

    /// Bytes that all queries may hold together: a half.
    pub fn queries(&self) -> u64 {
        self.limit / 2
    }

    /// Bytes of the compiled patterns of all requests under way, and of one request: a sixteenth, at most 64 MiB.
    pub fn patterns(&self) -> u64 {
        (self.limit / 16).min(MAX_REQUEST_REGEX_BYTES as u64)
    }

    /// Bytes of one answer of a label endpoint: a sixteenth, at most 32 MiB.
    pub fn list(&self) -> u64 {
        (self.limit / 16).min(MAX_LIST_BYTES as u64)
    }

    /// Bytes of the metadata of metric families: a sixteenth, at most 64 MiB.
    pub fn metadata(&self) -> u64 {
        (self.limit / 16).min(MAX_METADATA_BYTES as u64)
    }

    /// Bytes of compressed bodies being received, for writes, remote reads and forms each: from 32 to
    /// 128 MiB, so that the largest body fits.
    pub fn bodies(&self) -> u64 {
        (self.limit / 32).clamp(MAX_BODY_BYTES as u64, MAX_BODY_BYTES_IN_FLIGHT as u64)
    }

    /// Bytes of decoded writes: from 32 to 256 MiB. A larger request takes all of it.
    pub fn decoded(&self) -> u64 {
        (self.limit / 16).clamp(MAX_DECODED_BYTES as u64, MAX_DECODED_BYTES_IN_FLIGHT as u64)
    }

    /// Bytes of a remote read's answer that is not streamed: a sixteenth, at most 1 GiB.
    pub fn read_answer(&self) -> u64 {
        (self.limit / 16).min(MAX_READ_RESPONSE_BYTES as u64)
    }

    /// Bytes of unpacked index blocks of the embedded store: at most 64 MiB.
    pub fn blocks(&self) -> u64 {
        (self.limit / 32).min(64 << 20)
    }

    /// Bytes that the parts of a flush of the embedded store may hold while they are written, without the
    /// points: an eighth.
    pub fn parts(&self) -> u64 {
        self.limit / 8
    }

    /// Bytes of the cache of series in the index of Cassandra: an eighth, at most 256 MiB.
    pub fn series_cache(&self) -> u64 {
        (self.limit / 8).min(256 << 20)
    }

    /// Bytes for the directory of the read cache's files: a sixteenth.
    pub fn read_cache(&self) -> u64 {
        self.limit / 16
    }

    /// The configured size of a setting, or else the share; `times` this size must fit into half of the
    /// limit.
    pub(super) fn size_or(
        &self,
        raw: &Raw,
        name: &'static str,
        share: u64,
        times: usize,
    ) -> Result<usize, ConfigError> {
        let bytes = if raw.get(name).is_none() { share } else { raw.size(name)? };
        let half = self.limit / 2;
        if raw.get(name).is_none() || bytes.saturating_mul(times as u64) <= half {
            return Ok(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let what = if times == 1 { "it".to_owned() } else { format!("{times} times as much") };
        let reason = format!(
            "{what} must fit into half of the setting {LIMIT}, which is {} here: {}",
            raw.required(LIMIT),
            ShownSize::of(half)
        );
        Err(raw.refuse(name, reason))
    }
}

/// The limit in bytes. `available` returns the memory of the machine; it is called only for a percentage.
/// A percentage below [`LEAST`] counts as [`LEAST`] if that leaves an eighth of the memory free: otherwise the
/// system would kill the process before the limit has an effect.
fn limit_of(text: &str, available: impl FnOnce() -> u64) -> Result<u64, String> {
    match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent = percent.trim().parse::<u64>().ok().filter(|p| (1..=100).contains(p));
            let percent = percent.ok_or("a part must be from 1% to 100%")?;
            let available = available();
            if available / 8 * 7 < LEAST {
                let (available, least) = (ShownSize::of(available), ShownSize::of(LEAST));
                return Err(format!(
                    "is of {available}, which the machine or the control group has: the program \
                     needs {least}, and an eighth for what else is there"
                ));
            }
            Ok((available / 100 * percent).max(LEAST))
        }
        None => match parse_size(text) {
            Ok(bytes) if bytes < LEAST => {
                let (bytes, least) = (ShownSize::of(bytes), ShownSize::of(LEAST));
                Err(format!("is {bytes} and must be at least {least}"))
            }
            bytes => bytes.map_err(|error| format!("{error}; or a part such as 60%")),
        },
    }
}

/// Bytes of memory of the machine, or of the control group if smaller.
pub fn available() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(info.mem_unit.into());
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = group_files(&groups).into_iter();
    let limits = files.filter_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok());
    // "No limit" is the word max, or in version 1 a number larger than any machine's memory.
    limits.fold(machine, u64::min)
}

/// The files with the limits of the groups of `/proc/self/cgroup` and of their parents, in both
/// versions of control groups.
fn group_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        let path = path.trim_start_matches('/');
        let around =
            Path::new(path).ancestors().map(|group| Path::new(root).join(group).join(name));
        files.extend(around);
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::testing::load;
    use super::*;

    #[test]
    fn a_limit_is_a_size_or_a_part_of_what_there_is() {
        let check = |text: &str, want: Result<u64, &str>| {
            let limit = limit_of(text, || 1_000_000_000);
            assert_eq!(limit, want.map_err(str::to_owned), "{text}");
        };
        check("60%", Ok(600_000_000));
        check(" 100 % ", Ok(1_000_000_000));
        check("2GiB", Ok(2 << 30));
        check("0%", Err("a part must be from 1% to 100%"));
        check("101%", Err("a part must be from 1% to 100%"));
        check("1%", Ok(LEAST));
        check("64MiB", Err("is 64MiB and must be at least 128MiB"));
        let small = |available| limit_of("60%", || available);
        let least = LEAST / 7 * 8 + 8;
        assert_eq!([least, 200 << 20].map(small), [Ok(LEAST), Ok(LEAST)]);
        let error = "is of 128MiB, which the machine or the control group has: the program \
                     needs 128MiB, and an eighth for what else is there";
        assert_eq!(small(128 << 20), Err(error.to_owned()));
        assert!(limit_of("lots", || 0).expect_err("no size").ends_with("or a part such as 60%"));
    }

    #[test]
    fn every_group_around_the_process_is_asked() {
        let files = group_files("9:name=systemd:/\n4:memory:/a/b\n0::/c\nodd\n");
        let files: Vec<&str> = files.iter().filter_map(|file| file.to_str()).collect();
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/c/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert!(available() > 0);
    }

    #[test]
    fn shares_are_parts_of_the_limit_up_to_a_bound() {
        let config = load(&["--memory-limit=1GiB"]).expect("valid");
        assert_eq!(config.memory, MemoryConfig { limit: 1 << 30 });
        assert_eq!(config.head.flush_memory, 128 << 20);
        assert_eq!(config.queries.max_memory, 256 << 20);
        let config = load(&["--memory-limit=100GiB"]).expect("valid");
        assert_eq!((config.head.flush_memory, config.queries.max_memory), (512 << 20, 2 << 30));
        for limit in [LEAST, 1 << 30, 1 << 34, 1 << 40] {
            let memory = MemoryConfig { limit };
            assert!(memory.flush() * 4 <= limit / 2 && memory.query() <= limit / 2, "{limit}");
            assert!(memory.bodies() >= MAX_BODY_BYTES as u64, "{limit}");
        }
    }

    #[test]
    fn what_is_set_by_hand_has_to_fit() {
        let check = |setting: &str, want: &str| {
            let error = load(&["--memory-limit=1GiB", setting]).expect_err(setting);
            assert_eq!(error, want);
        };
        check(
            "--query-max-memory=1GiB",
            "--query-max-memory \"1GiB\": it must fit into half of the setting memory-limit, \
             which is 1GiB here: 512MiB",
        );
        check(
            "--flush-memory=200MiB",
            "--flush-memory \"200MiB\": 4 times as much must fit into half of the setting \
             memory-limit, which is 1GiB here: 512MiB",
        );
        check(
            "--max-label-results-size=1GiB",
            "--max-label-results-size \"1GiB\": 4 times as much must fit into half of the setting \
             memory-limit, which is 1GiB here: 512MiB",
        );
        let both = ["--memory-limit=1GiB", "--flush-memory=100MiB", "--query-max-memory=500MiB"];
        let config = load(&both).expect("they fit");
        assert_eq!((config.head.flush_memory, config.queries.max_memory), (100 << 20, 500 << 20));
    }
}
