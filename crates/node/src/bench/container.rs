//! Resource limits like those of a container, by control groups of version 1 or 2.
//!
//! ```text
//!   version 2   one group beside our own            cpu.max, memory.max
//!   version 1   one group below our own for each    cpu/cpu.cfs_quota_us, memory/memory.limit_in_bytes
//! ```
//!
//! With `--memory`, `container_parent.rs` starts this command again, and that child enters the groups.
//!
//! This user must be able to write the groups, like root or a program started by `systemd-run --user -p Delegate=yes`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cli::bench::ContainerFlags;
use crate::failure::Failure;

const ROOT: &str = "/sys/fs/cgroup";
/// Prefix of our groups' names, before the process id.
const NAME: &str = "rusm-bench-";
/// Period of a CPU quota, in microseconds.
const PERIOD_US: u64 = 100_000;
/// Minimum memory in which a node starts, in bytes.
const MEMORY_MIN: u64 = 16 << 20;

/// Maximum resources of this program.
#[derive(Debug)]
struct Limits {
    /// CPU time per period, in microseconds.
    quota_us: Option<u64>,
    memory_bytes: Option<u64>,
}

impl Limits {
    /// Returns the requested limits of cores and memory, if any.
    fn new(cores: Option<f64>, memory: Option<&str>) -> Result<Option<Self>, Failure> {
        let quota_us = cores.map(quota).transpose()?;
        let memory_bytes = memory.map(bytes).transpose()?;
        let is_any = quota_us.is_some() || memory_bytes.is_some();
        Ok(is_any.then_some(Self { quota_us, memory_bytes }))
    }
}

fn quota(cores: f64) -> Result<u64, Failure> {
    if !(0.01..=4096.0).contains(&cores) {
        return Err(Failure::Usage(format!("--cpus of {cores} is not between 0.01 and 4096")));
    }
    Ok((cores * PERIOD_US as f64).round() as u64)
}

fn bytes(text: &str) -> Result<u64, Failure> {
    rusm_text::parse_size(text)
        .filter(|bytes| *bytes >= MEMORY_MIN)
        .ok_or_else(|| Failure::Usage(format!("--memory of {text:?} must be a size of at least 16MiB, such as 256MiB")))
}

/// Control groups that this program is in until this value is dropped.
#[derive(Debug, Default)]
pub(super) struct Container(Vec<ControlGroup>);

#[derive(Debug)]
struct ControlGroup {
    path: PathBuf,
    /// The group that the program was in before.
    home: PathBuf,
}

/// A group to be created, and the values to be written into its files.
#[derive(Debug, PartialEq, Eq)]
struct GroupPlan {
    parent: PathBuf,
    home: PathBuf,
    files: Vec<(&'static str, String)>,
}

impl Container {
    /// Moves this program, and the programs it starts, into groups with the requested limits, if any.
    pub(super) fn from_flags(flags: &ContainerFlags) -> Result<Option<Self>, Failure> {
        Limits::new(flags.cpus, flags.memory.as_deref())?.map(|limits| Self::enter(&limits)).transpose()
    }

    /// Returns true if the system has killed a program because these groups ran out of memory.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.iter().any(|group| has_killed(&group.path))
    }

    fn enter(limits: &Limits) -> Result<Self, Failure> {
        let plans = plans(limits).ok_or_else(|| unavailable("this system has no control groups for these limits"))?;
        let mut container = Self::default();
        for plan in plans {
            container.0.push(plan.create()?);
        }
        Ok(container)
    }
}

/// Returns the groups that this program needs for the limits.
fn plans(limits: &Limits) -> Option<Vec<GroupPlan>> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    // Without this file the folder may hold plain files; a limit written there would be ignored.
    let is_v2 = Path::new(ROOT).join("cgroup.controllers").exists();
    if is_v2 { plans_v2(&own, limits) } else { plans_v1(&own, limits) }
}

/// Removes the groups in which the child of this program was killed. Returns true if it was killed for lack of memory.
pub(super) fn remove_leftover(child: u32) -> bool {
    let every = Limits { quota_us: Some(PERIOD_US), memory_bytes: Some(MEMORY_MIN) };
    let groups = plans(&every).unwrap_or_default().into_iter().map(|plan| plan.parent.join(format!("{NAME}{child}")));
    let groups: Vec<PathBuf> = groups.filter(|group| group.exists()).collect();
    let is_exceeded = groups.iter().any(|group| has_killed(group));
    for group in groups {
        // The kernel removes the killed program from its group a moment after it reports the end. If the group remains,
        // the next program removes it.
        let removed = (0..50).any(|_| {
            let removed = fs::remove_dir(&group).is_ok();
            if !removed {
                std::thread::park_timeout(std::time::Duration::from_millis(10));
            }
            removed
        });
        tracing::debug!(removed, group = %group.display(), "control group of a killed program");
    }
    is_exceeded
}

/// Returns true if the kernel has killed a program of this group for lack of memory, by its counter in either version.
fn has_killed(group: &Path) -> bool {
    ["memory.events", "memory.oom_control"].iter().any(|file| {
        let text = fs::read_to_string(group.join(file)).unwrap_or_default();
        text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
    })
}

fn unavailable(what: &str) -> Failure {
    Failure::Usage(format!(
        "cannot limit this program: {what}: start it as root, or with systemd-run --user --scope -p Delegate=yes, or limit the \
         container that it runs in"
    ))
}

fn plans_v2(own: &str, limits: &Limits) -> Option<Vec<GroupPlan>> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let home = Path::new(ROOT).join(path);
    // A group that has processes cannot pass its controllers on to groups below it, except for the root. So our group
    // is beside it.
    let parent = if path.is_empty() { home.clone() } else { home.parent().unwrap_or(&home).to_owned() };
    let quota = limits.quota_us.map(|quota| ("cpu.max", format!("{quota} {PERIOD_US}")));
    let memory = limits.memory_bytes.map(|bytes| ("memory.max", bytes.to_string()));
    Some(vec![GroupPlan { parent, home, files: quota.into_iter().chain(memory).collect() }])
}

fn plans_v1(own: &str, limits: &Limits) -> Option<Vec<GroupPlan>> {
    let plan = |controller: &str, files: Vec<(&'static str, String)>| {
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        let home = Path::new(ROOT).join(controller).join(path?);
        Some(GroupPlan { parent: home.clone(), home, files })
    };
    let quota = |quota: u64| {
        let files = vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
        plan("cpu", files)
    };
    let memory = |bytes: u64| plan("memory", vec![("memory.limit_in_bytes", bytes.to_string())]);
    [limits.quota_us.map(quota), limits.memory_bytes.map(memory)].into_iter().flatten().collect()
}

impl GroupPlan {
    fn create(self) -> Result<ControlGroup, Failure> {
        let fail = |path: &Path, error: &io::Error| unavailable(&format!("{}: {error}", path.display()));
        remove_leftovers(&self.parent);
        let group = ControlGroup { path: self.parent.join(format!("{NAME}{}", std::process::id())), home: self.home };
        fs::create_dir(&group.path).map_err(|error| fail(&group.path, &error))?;
        let join = ("cgroup.procs", "0".to_owned());
        for (file, value) in self.files.into_iter().chain([join]) {
            let path = group.path.join(file);
            fs::write(&path, value).map_err(|error| fail(&path, &error))?;
        }
        Ok(group)
    }
}

/// Removes the groups of programs that were killed; a group that still has processes cannot be removed.
fn remove_leftovers(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_leftover = |name: &str| name.strip_prefix(NAME).is_some_and(|id| !Path::new("/proc").join(id).exists());
    for entry in entries.filter(|entry| is_leftover(&entry.file_name().to_string_lossy())) {
        drop(fs::remove_dir(entry.path()));
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A group can be removed once it is empty. The next program removes the group of a program that was killed.
        drop(fs::write(self.home.join("cgroup.procs"), "0"));
        drop(fs::remove_dir(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_as_the_kernel_writes_them() {
        assert_eq!((quota(1.5).unwrap(), bytes("256MiB").unwrap()), (150_000, 256 << 20));
        assert!(quota(-1.0).is_err() && quota(f64::NAN).is_err() && bytes("1MiB").is_err() && bytes("lots").is_err());
        assert!(Limits::new(None, None).unwrap().is_none());
    }

    #[test]
    fn both_versions_have_their_groups() {
        let limits = Limits { quota_us: Some(50_000), memory_bytes: Some(1 << 30) };
        let first = plans_v1("4:memory:/box/a\n3:cpu,cpuacct:/\n0::/\n", &limits).unwrap();
        let second = plans_v2("0::/user.slice/a\n", &limits).unwrap();

        assert_eq!(first[0].home, Path::new("/sys/fs/cgroup/cpu"));
        assert_eq!(first[0].files[1], ("cpu.cfs_quota_us", "50000".to_owned()));
        assert_eq!(first[1].parent, Path::new("/sys/fs/cgroup/memory/box/a"));
        assert_eq!(second[0].parent, Path::new("/sys/fs/cgroup/user.slice"));
        assert_eq!(second[0].files, [("cpu.max", "50000 100000".to_owned()), ("memory.max", (1 << 30).to_string())]);
        assert_eq!(plans_v1("0::/\n", &limits), None);
    }
}
