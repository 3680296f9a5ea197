//! A control group (version 1 or 2) with a memory limit, if the user of the tests may create one:
//! the system kills a process beyond the limit.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A group for one test. It must be empty before it is dropped.
pub(crate) struct Group(PathBuf);

impl Group {
    /// A group limited to `bytes`, without swap; `None` if this user may not create one.
    pub(crate) fn with_memory(bytes: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
            match controllers {
                "memory" => {
                    let group = Self::below(&Path::new("/sys/fs/cgroup/memory").join(path))?;
                    group.set("memory.limit_in_bytes", bytes)?;
                    // Limits memory and swap together; does not exist on every system.
                    group.set("memory.memsw.limit_in_bytes", bytes);
                    Some(group)
                }
                "" => {
                    // The parent has to delegate the memory controller.
                    let around = Path::new("/sys/fs/cgroup").join(path);
                    let hands_on = |group: &&Path| {
                        let handed = fs::read_to_string(group.join("cgroup.subtree_control"));
                        handed.is_ok_and(|handed| handed.split(' ').any(|it| it.trim() == "memory"))
                    };
                    let group = Self::below(around.ancestors().find(hands_on)?)?;
                    group.set("memory.max", bytes)?;
                    group.set("memory.swap.max", 0);
                    Some(group)
                }
                _ => None,
            }
        })
    }

    fn below(around: &Path) -> Option<Self> {
        let group = Self(around.join(format!("promkairos-{}", super::keyspace())));
        fs::create_dir(&group.0).ok()?;
        group.0.join("cgroup.procs").exists().then_some(group)
    }

    fn set(&self, file: &str, bytes: u64) -> Option<()> {
        let mut file = OpenOptions::new().write(true).open(self.0.join(file)).ok()?;
        file.write_all(bytes.to_string().as_bytes()).ok()
    }

    /// A shell command that joins the group and then executes the command after it.
    pub(crate) fn joining(&self) -> String {
        format!("echo $$ > '{}/cgroup.procs' && exec \"$0\" \"$@\"", self.0.display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
