//! Limits of the control groups of this program (cgroup v1 and v2): the lowest limit from its own group up to the root.
//!
//! The default limit of all mailboxes, `rusm doctor` and the description of the machine in a report use them.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Returns the number of cores that may be used at once; `None` without a limit.
pub fn cores() -> Option<f64> {
    least("cpu", |group| {
        let v2 = fs::read_to_string(group.join("cpu.max")).ok();
        let v1 = || {
            let read = |name: &str| fs::read_to_string(group.join(name)).ok();
            Some(format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim()))
        };
        quota(&v2.or_else(v1)?)
    })
}

/// Returns the maximum bytes of memory; `None` without a limit.
pub fn memory_bytes() -> Option<u64> {
    MemoryGroup::find().map(|group| group.max_bytes)
}

/// The control group with the lowest limit on memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct MemoryGroup {
    /// Maximum bytes.
    pub max_bytes: u64,
    path: PathBuf,
}

impl MemoryGroup {
    /// Returns the group; `None` without a limit.
    pub fn find() -> Option<Self> {
        // cgroup v1 expresses "no limit" as a number larger than the memory of any machine.
        let bytes = |text: String| text.trim().parse::<u64>().ok().filter(|bytes| *bytes < 1 << 60);
        least("memory", |group| {
            let max_bytes = read_either(group, "memory.max", "memory.limit_in_bytes").and_then(bytes)?;
            Some(Self { max_bytes, path: group.to_owned() })
        })
    }

    /// Returns the bytes of all programs in the group that the kernel cannot take back; `None` if it does not say.
    pub fn used_bytes(&self) -> Option<u64> {
        used(&fs::read_to_string(self.path.join("memory.stat")).ok()?)
    }
}

/// Returns the bytes in the statistics of a group, of version 2 or 1.
fn used(stat: &str) -> Option<u64> {
    let field = |name: &str| {
        stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let programs = field("total_rss").or_else(|| field("anon"))?;
    Some(programs + field("total_shmem").or_else(|| field("shmem")).unwrap_or(0))
}

/// Returns the maximum number of threads; `None` without a limit.
pub fn threads() -> Option<u64> {
    least("pids", |group| read_either(group, "pids.max", "pids.max")?.trim().parse().ok())
}

fn read_either(group: &Path, v2: &str, v1: &str) -> Option<String> {
    fs::read_to_string(group.join(v2)).or_else(|_| fs::read_to_string(group.join(v1))).ok()
}

fn least<T: PartialOrd>(controller: &str, limit: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = groups(&own, controller);
    groups.iter().filter_map(|group| limit(group)).min_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
}

/// Returns the directories of the groups that limit this program; `own` is the content of `/proc/self/cgroup`.
fn groups(own: &str, controller: &str) -> Vec<PathBuf> {
    let lines = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let of_line = |(controllers, path): (&str, &str)| {
        let root = match controllers {
            "" => PathBuf::from(ROOT),
            named if named.split(',').any(|name| name == controller) => Path::new(ROOT).join(controller),
            _ => return Vec::new(),
        };
        let group = root.join(path.trim_start_matches('/'));
        group.ancestors().take_while(|group| group.starts_with(&root)).map(Path::to_owned).collect()
    };
    lines.flat_map(of_line).collect()
}

/// Returns the number of cores that `quota period` allows; `None` without a quota.
fn quota(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota = quota.parse::<f64>().ok().filter(|quota| *quota > 0.0)?;
    Some(quota / period.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_with_those_above_it() {
        let own = "5:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice/x\n";
        let paths =
            |controller| groups(own, controller).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        let second = ["/sys/fs/cgroup/user.slice/x", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"];

        assert_eq!(paths("pids"), second);
        let first = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory"];
        assert_eq!(paths("memory"), [&first[..], &second].concat());
        assert!(
            paths("cpu").contains(&"/sys/fs/cgroup/cpu/".to_owned())
                || paths("cpu").contains(&"/sys/fs/cgroup/cpu".to_owned())
        );
    }

    #[test]
    fn a_quota_is_read_in_both_spellings() {
        assert_eq!([quota("150000 100000"), quota("max 100000"), quota("-1 100000")], [Some(1.5), None, None]);
    }

    #[test]
    fn the_memory_of_a_group_is_that_of_its_programs_and_of_files_in_memory() {
        let second = "anon 4096\nfile 999999\nkernel 7\nshmem 100\n";
        let first = "cache 999999\nrss 1\nshmem 2\ntotal_cache 999999\ntotal_rss 4096\ntotal_shmem 100\n";

        assert_eq!([used(second), used(first), used("")], [Some(4196), Some(4196), None]);
    }
}
