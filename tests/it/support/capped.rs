//! A control group with a bound of memory, where the user of the tests may make one: beyond it the system ends a
//! process. Both versions of control groups.

use std::path::{Path, PathBuf};

/// A group of its own below that of the tests. It has to be empty before it is dropped.
pub(crate) struct Group(PathBuf);

impl Group {
    /// One with so many bytes; none where this user may make none.
    pub(crate) fn with_memory(bytes: u64) -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").expect("it is told");
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (root, limit) = match fields.next()? {
                "" => ("/sys/fs/cgroup", "memory.max"),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                _ => return None,
            };
            let around = Path::new(root).join(fields.next()?.trim_start_matches('/'));
            let group = Self(around.join(format!("promkairos-{}", super::keyspace())));
            std::fs::create_dir(&group.0).ok()?;
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// A shell's command that joins the group and becomes the command that follows.
    pub(crate) fn joining(&self) -> String {
        format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
