//! The sections of `rusm.toml` that describe an application: the guests that `rusm run` starts.
//!
//! ```text
//!   [[process]] [modules] [supervisor] ─▶ which guests run, and which are restarted together
//!   [profile.NAME] [limits] [engine]   ─▶ capabilities and limits of guests, and their instance allocator
//! ```
//!
//! `docs/run.md` describes every key; a test compares it with the fields of the sections below.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusm_runtime::supervisor::{Backoff, Intensity, Restart, Shutdown, Strategy};
use rusm_runtime::{NAME_MAX_BYTES, check_name};
use rusm_wasm::{
    Capability, Compiler, Folder, GuestLimits, InstanceAllocator, Profiles, SANDBOXED, TOPIC_BUCKETS, WasmConfig,
};
use serde::Deserialize;
use toml::{Table, Value};

use crate::settings::error::SettingsError;
use crate::settings::layers::in_section;
use crate::settings::limits::{
    MemoryMax, MessageMax, PartsMax, SentMax, TableMax, U32_MAX, check_within, limits_of_all, raised_to,
    section_with_limits,
};
use crate::settings::profile::known_profile;
use crate::settings::raw::{RawSetting, RawSettings, did_you_mean, section};
use crate::settings::serve::{Context, Site, site_origin};
use crate::settings::value::{Flag, Number, Size, Strings, Text, Time, Word, Words, time};

section_with_limits! {
    /// `[[process]]`, or the command line.
    struct ProcessSection {
        name: Option<RawSetting>,
        module: Option<Text>,
        args: Strings,
        // More processes than the engine's capacity are rejected anyway.
        count: Option<Number<1, 1_000_000>>,
        profile: Option<RawSetting>,
        register: Option<RawSetting>,
        restart: Option<Word<Restart>>,
        shutdown: Option<ShutdownSetting>,
    }
}

section_with_limits! {
    /// `[profile.NAME]`.
    struct ProfileSection {
        capabilities: Option<CapabilityList>,
        buckets: Option<RawSetting>,
        topics: Option<RawSetting>,
        hosts: Option<Strings>,
        config: Option<RawSetting>,
        environment: Option<RawSetting>,
        folders: Option<RawSetting>,
    }
}

/// `[supervisor]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SupervisorSection {
    strategy: Option<Word<Strategy>>,
    intensity: Option<Number<0, U32_MAX>>,
    period: Option<Time>,
    backoff_first: Option<Time>,
    backoff_limit: Option<Time>,
}

/// `[limits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsSection {
    memory_max: Option<MemoryMax>,
    table_max_elements: Option<TableMax>,
    parts_max: Option<PartsMax>,
    message_max: Option<MessageMax>,
    sent_max: Option<SentMax>,
    log_lines: Option<Number<1, U32_MAX>>,
    log_bytes: Option<Size<{ u64::MAX }>>,
}

/// `[engine]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EngineSection {
    capacity: Option<Number<1, 16_000_000>>,
    guests_memory: Option<Size<{ 1 << 50 }>>,
    room: Option<Word<InstanceAllocator>>,
    tick: Option<Tick>,
    cache: Option<Cache>,
    cache_max: Option<Size<{ 1 << 50 }>>,
    compile_memory: Option<Size<{ 1 << 50 }>>,
    compile_time: Option<CompileTime>,
    spawn_by_path: Flag,
}

/// Processor time that compiling one module may take.
const COMPILE_TIME: Duration = Duration::from_mins(2);

/// Returns the program that compiles guests: this one, also if its file was replaced meanwhile. The programs of tests do not
/// compile. Without /proc, the node compiles them itself.
fn compiler(engine: &EngineSection) -> Option<Compiler> {
    let memory_max_bytes =
        engine.compile_memory.map_or_else(rusm_runtime::defaults::mailbox_total_bytes, |bytes| bytes.0);
    let cpu_max = engine.compile_time.map_or(COMPILE_TIME, |time| time.0);
    let program = PathBuf::from("/proc/self/exe");
    (!cfg!(test) && program.exists()).then_some(Compiler { program, memory_max_bytes, cpu_max })
}

/// Names of the built-in profiles.
const BUILT_IN_PROFILES: [&str; 3] = [SANDBOXED, "network", "trusted"];

/// An application with valid settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub(crate) processes: Vec<Process>,
    /// Modules that guests can spawn by name.
    pub(crate) modules: BTreeMap<String, PathBuf>,
    /// Topics that guests use.
    pub(crate) topics: BTreeMap<String, TopicStorage>,
    pub(crate) supervision: Supervision,
    /// Servers, as `[[serve]]` describes them.
    pub(crate) sites: Vec<Site>,
    pub(crate) wasm: WasmConfig,
}

/// Storage of a topic's messages, as set in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopicStorage {
    InMemory,
    OnDisk,
}

/// A guest, or several guests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) module: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) count: u32,
    pub(crate) profile: String,
    pub(crate) limits: GuestLimits,
    pub(crate) register: Option<String>,
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
}

/// Which guests are restarted together, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Supervision {
    pub(crate) strategy: Strategy,
    pub(crate) intensity: Intensity,
    pub(crate) backoff: Option<Backoff>,
}

impl Default for Supervision {
    fn default() -> Self {
        Self { strategy: Strategy::OneForOne, intensity: Intensity::default(), backoff: None }
    }
}

impl Process {
    /// Returns the ids of its processes under their supervisor: its name, with a number if there are several.
    pub(crate) fn ids(&self) -> impl Iterator<Item = Arc<str>> {
        (1..=self.count).map(|number| match self.count {
            1 => self.name.as_str().into(),
            _ => format!("{}.{number}", self.name).into(),
        })
    }
}

impl App {
    /// Reads the sections of the file at `path`; relative paths in it start from its directory.
    pub(super) fn read(path: &Path, sections: &Table) -> Result<Self, SettingsError> {
        let dir = path.parent().unwrap_or_else(|| Path::new(""));
        let file = File { name: path.display().to_string(), dir, sections };
        let topics = file.topics()?;
        let wasm = WasmConfig { topics: !topics.is_empty(), ..file.wasm()? };
        let (modules, supervision) = (file.modules()?, file.supervision()?);
        let processes = file.processes(&modules, &wasm.profiles)?;
        let capacity = wasm.capacity;
        let context =
            Context { origin: &file.name, dir: file.dir, modules: &modules, profiles: &wasm.profiles, capacity };
        let sites = context.sites(sections.get("serve"))?;
        let app = Self { processes, modules, topics, supervision, sites, wasm };
        app.check(&file.name)?;
        Ok(app)
    }

    /// Returns an application with the same engine, limits and profiles, but with only the process that the command
    /// line describes.
    pub(crate) fn with_single_guest(
        self,
        module: &Path,
        name: &str,
        args: &[String],
        given: &RawSettings,
    ) -> Result<Self, SettingsError> {
        let section = ProcessSection { args: Strings(args.to_vec()), ..section(given, "process", "the command line")? };
        let process = process(&section, module.to_owned(), name.to_owned(), &self.wasm.profiles)?;
        let wasm = raised_to(&process.limits, self.wasm);
        let app = Self { processes: vec![process], sites: Vec::new(), wasm, ..self };
        app.check("the command line")?;
        Ok(app)
    }

    /// Returns an application with the same engine, limits and profiles, but with only one server, for a component or a
    /// folder.
    pub(crate) fn with_single_site(
        self,
        target: &Path,
        site: &RawSettings,
        route: &RawSettings,
    ) -> Result<Self, SettingsError> {
        let (origin, dir) = ("the command line", Path::new(""));
        let (modules, profiles, capacity) = (&self.modules, &self.wasm.profiles, self.wasm.capacity);
        let single = Context { origin, dir, modules, profiles, capacity }.single(target, site, route)?;
        let limits = single.guests().next().map(|guest| guest.limits).unwrap_or_default();
        let app = Self { wasm: raised_to(&limits, self.wasm), sites: vec![single], processes: Vec::new(), ..self };
        app.check(origin)?;
        Ok(app)
    }

    /// Returns the number of guests that the application starts.
    pub(crate) fn guests(&self) -> u64 {
        self.processes.iter().map(|process| u64::from(process.count)).sum()
    }

    fn check(&self, origin: &str) -> Result<(), SettingsError> {
        let mut ids = BTreeSet::new();
        let total = self.guests();
        if total > self.wasm.capacity.into() {
            let (origin, capacity) = (origin.to_owned(), self.wasm.capacity);
            return Err(SettingsError::TooManyProcesses { origin, total, capacity });
        }
        if let Some(id) = self.processes.iter().flat_map(Process::ids).find(|id| !ids.insert(Arc::clone(id))) {
            return Err(SettingsError::DuplicateName { id: id.to_string(), origin: origin.to_owned() });
        }
        let mut names = BTreeSet::new();
        let registered = self.processes.iter().filter_map(|process| process.register.as_ref());
        match registered.into_iter().find(|name| !names.insert(*name)) {
            Some(name) => Err(SettingsError::DuplicateRegister { name: name.clone(), origin: origin.to_owned() }),
            None => self.check_limits(origin),
        }
    }

    /// Refuses limits above those of all guests, or of their profile: they would be ignored.
    fn check_limits(&self, origin: &str) -> Result<(), SettingsError> {
        let (all, profiles) = (limits_of_all(&self.wasm), &self.wasm.profiles);
        let of_profile = |name: &str| profiles.limits(name).unwrap_or_default();
        for name in profiles.names() {
            let place = ("profile.NAME", &*format!("{origin} (profile {name:?})"));
            check_within(&of_profile(name), place, &all, "limits")?;
        }
        let check = |limits: &GuestLimits, profile: &str, place: (&str, &str)| {
            check_within(limits, place, &all, "limits")?;
            check_within(limits, place, &of_profile(profile), &format!("profile.{profile}"))
        };
        for process in &self.processes {
            let place = format!("{origin} (process {:?})", process.name);
            check(&process.limits, &process.profile, ("process", &place))?;
        }
        for (number, site) in (1..).zip(&self.sites) {
            let routes = site.routes.iter().filter_map(|route| Some((route, route.guest()?)));
            for (route, guest) in routes {
                let place = format!("{}, route {:?}", site_origin(origin, number, site.name.as_deref()), route.pattern);
                check(&guest.limits, &guest.profile, ("serve.route", &place))?;
            }
        }
        Ok(())
    }
}

/// The file being read.
struct File<'a> {
    name: String,
    dir: &'a Path,
    sections: &'a Table,
}

impl File<'_> {
    fn shape(&self, key: &str, due: &'static str) -> SettingsError {
        SettingsError::Shape { key: key.to_owned(), origin: self.name.clone(), due }
    }

    /// Returns a section with a fixed name; without entries if the file does not have it.
    fn table(&self, name: &str) -> Result<Table, SettingsError> {
        match self.sections.get(name) {
            None => Ok(Table::new()),
            Some(Value::Table(table)) => Ok(table.clone()),
            Some(_) => Err(self.shape(name, "a section of its own")),
        }
    }

    fn section<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, SettingsError> {
        section(&in_section(name, &self.name, self.table(name)?), name, &self.name)
    }

    fn processes(
        &self,
        modules: &BTreeMap<String, PathBuf>,
        profiles: &Profiles,
    ) -> Result<Vec<Process>, SettingsError> {
        let shape = || self.shape("process", "written as [[process]]");
        let entries = match self.sections.get("process") {
            None => &[][..],
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(shape()),
        };
        let tables = entries.iter().map(|entry| entry.as_table().ok_or_else(shape));
        (1..).zip(tables).map(|(number, table)| self.process(number, table?, modules, profiles)).collect()
    }

    fn process(
        &self,
        number: usize,
        table: &Table,
        modules: &BTreeMap<String, PathBuf>,
        profiles: &Profiles,
    ) -> Result<Process, SettingsError> {
        let origin = match table.get("name").or_else(|| table.get("module")).and_then(Value::as_str) {
            Some(name) => format!("{} (process {name:?})", self.name),
            None => format!("{} (process {number})", self.name),
        };
        let given = in_section("process", &origin, table.clone());
        let section: ProcessSection = section(&given, "process", &origin)?;
        let Some(Text(word)) = &section.module else {
            return Err(SettingsError::Missing { key: "process.module", origin });
        };
        let (module, name) = match modules.get(word) {
            Some(module) => (module.clone(), word.clone()),
            None => (self.dir.join(word), stem(Path::new(word))),
        };
        process(&section, module, name, profiles)
    }

    fn modules(&self) -> Result<BTreeMap<String, PathBuf>, SettingsError> {
        let path = |(name, path)| match path {
            Value::String(path) => Ok((name, self.dir.join(path))),
            path => Err(RawSetting::in_file("modules.NAME", path, &self.name).wrong_type("the path of a module")),
        };
        self.table("modules")?.into_iter().map(path).collect()
    }

    fn topics(&self) -> Result<BTreeMap<String, TopicStorage>, SettingsError> {
        let storage = |(name, storage): (String, Value)| {
            if check_name("topic", &name).is_err() {
                let raw = RawSetting::in_file("topics.NAME", Value::String(name), &self.name);
                return Err(raw.invalid(&format!("must be 1 to {NAME_MAX_BYTES} bytes long")));
            }
            let origin = format!("{} (topic {name:?})", self.name);
            Ok((name, Word::try_from(RawSetting::in_file("topics.NAME", storage, &origin))?.0))
        };
        self.table("topics")?.into_iter().map(storage).collect()
    }

    fn supervision(&self) -> Result<Supervision, SettingsError> {
        let (section, default): (SupervisorSection, _) = (self.section("supervisor")?, Supervision::default());
        let (first, limit) = (section.backoff_first, section.backoff_limit);
        let backoff = (first.is_some() || limit.is_some()).then(|| {
            let first = first.map_or(Duration::ZERO, |first| first.0);
            Backoff { first, limit: limit.map_or(Duration::from_secs(30), |limit| limit.0).max(first) }
        });
        Ok(Supervision {
            strategy: section.strategy.map_or(default.strategy, |strategy| strategy.0),
            intensity: Intensity {
                restarts: section.intensity.map_or(default.intensity.restarts, |restarts| restarts.0 as u32),
                period: section.period.map_or(default.intensity.period, |period| period.0),
            },
            backoff,
        })
    }

    fn wasm(&self) -> Result<WasmConfig, SettingsError> {
        let (engine, limits): (EngineSection, LimitsSection) = (self.section("engine")?, self.section("limits")?);
        let default = WasmConfig::default();
        let compiler = compiler(&engine);
        Ok(WasmConfig {
            capacity: engine.capacity.map_or(default.capacity, |guests| guests.0 as u32),
            allocator: engine.room.map_or(default.allocator, |allocator| allocator.0),
            memory_max_bytes: limits.memory_max.map_or(default.memory_max_bytes, |bytes| bytes.0),
            guests_memory_max_bytes: match engine.guests_memory {
                Some(bytes) => bytes.0,
                // A capacity that is set was computed from the memory of a guest: `rusm doctor` does so.
                None if engine.capacity.is_some() => default.guests_memory_max_bytes,
                None => 2 * rusm_runtime::defaults::mailbox_total_bytes(),
            },
            table_max_elements: limits.table_max_elements.map_or(default.table_max_elements, |count| count.0 as u32),
            parts_max: limits.parts_max.map_or(default.parts_max, |parts| parts.0 as u32),
            message_max_bytes: limits.message_max.map_or(default.message_max_bytes, |bytes| bytes.0 as u32),
            sent_max_bytes: limits.sent_max.map_or(default.sent_max_bytes, |bytes| bytes.0),
            log_lines_per_sec: limits.log_lines.map_or(default.log_lines_per_sec, |lines| lines.0 as u32),
            log_bytes_per_sec: limits.log_bytes.map_or(default.log_bytes_per_sec, |bytes| bytes.0),
            tick: engine.tick.map_or(default.tick, |tick| tick.0),
            cache_dir: match engine.cache {
                None | Some(Cache::Flag(true)) => default_cache_dir(),
                Some(Cache::Flag(false)) => None,
                Some(Cache::In(dir)) => Some(self.dir.join(dir)),
            },
            compiler,
            cache_max_bytes: engine.cache_max.map_or(default.cache_max_bytes, |bytes| bytes.0),
            spawn_by_path: engine.spawn_by_path.0,
            profiles: self.profiles()?,
            topics: false,
            // `rusm run` opens the store.
            store: None,
        })
    }

    fn profiles(&self) -> Result<Profiles, SettingsError> {
        let (mut profiles, topics) = (Profiles::default(), self.table("topics")?);
        for (name, profile) in self.table("profile")? {
            if BUILT_IN_PROFILES.contains(&name.as_str()) {
                return Err(SettingsError::BuiltIn { name, origin: self.name.clone() });
            }
            let Value::Table(profile) = profile else {
                return Err(self.shape("profile", "a section such as [profile.NAME]"));
            };
            let origin = format!("{} (profile {name:?})", self.name);
            let given = in_section("profile.NAME", &origin, profile);
            let profile: ProfileSection = section(&given, "profile.NAME", &origin)?;
            let limits = profile.limits();
            let Some(capabilities) = profile.capabilities else {
                return Err(SettingsError::Missing { key: "profile.NAME.capabilities", origin });
            };
            profiles.set(name.as_str(), capabilities.0.into_iter().collect());
            profiles.set_limits(&name, limits);
            if let Some(buckets) = profile.buckets {
                profiles.set_buckets(&name, granted_buckets(&buckets)?);
            }
            if let Some(hosts) = profile.hosts {
                profiles.set_hosts(&name, hosts.0);
            }
            if let Some(values) = profile.config {
                profiles.set_config(&name, config_values(&values)?);
            }
            if let Some(variables) = profile.environment {
                profiles.set_environment(&name, config_values(&variables)?);
            }
            if let Some(folders) = profile.folders {
                profiles.set_folders(&name, granted_folders(&folders, self.dir)?);
            }
            if let Some(granted) = profile.topics {
                profiles.set_topics(&name, granted_topics(&granted, &topics)?);
            }
        }
        Ok(profiles)
    }
}

/// Returns the folders that a profile grants: the guest's path with the path of a folder to read, or with a section.
fn granted_folders(raw: &RawSetting, dir: &Path) -> Result<Vec<Folder>, SettingsError> {
    let rule =
        "must be a section of paths, such as \"/data\" = \"data\" or \"/data\" = { path = \"data\", write = true }";
    let Value::Table(table) = &raw.value else { return Err(raw.invalid(rule)) };
    let folder = |(guest_path, value): (&String, &Value)| {
        let (path, is_writable) = match value {
            Value::String(path) => (path, false),
            Value::Table(section) => match (section.get("path"), section.get("write"), section.len()) {
                (Some(Value::String(path)), None, 1) => (path, false),
                (Some(Value::String(path)), Some(Value::Boolean(write)), 2) => (path, *write),
                _ => return Err(raw.invalid_part(guest_path, rule)),
            },
            _ => return Err(raw.invalid_part(guest_path, rule)),
        };
        let path = dir.join(path);
        if !path.is_dir() {
            return Err(raw.invalid_part(guest_path, &format!("needs {}, which is not a folder", path.display())));
        }
        Ok(Folder { path, guest_path: guest_path.clone(), is_writable })
    };
    table.iter().map(folder).collect()
}

/// Returns values or variables: text, or numbers and truth values as text.
fn config_values(raw: &RawSetting) -> Result<Vec<(String, String)>, SettingsError> {
    let rule = "must be a section of strings, numbers or truth values";
    let Value::Table(table) = &raw.value else { return Err(raw.invalid(rule)) };
    let text = |(key, value): (&String, &Value)| match value {
        Value::String(text) => Ok((key.clone(), text.clone())),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok((key.clone(), value.to_string())),
        _ => Err(raw.invalid_part(key, rule)),
    };
    table.iter().map(text).collect()
}

/// Returns the topics granted to a profile. Guests cannot create topics, so a name that is not in the file is an error.
fn granted_topics(raw: &RawSetting, topics: &Table) -> Result<Vec<String>, SettingsError> {
    let granted = raw.strings()?;
    match granted.iter().find(|word| !word.ends_with('*') && !topics.contains_key(*word)) {
        None => Ok(granted),
        Some(word) => {
            let meant = did_you_mean(word, topics.keys().map(String::as_str));
            Err(raw.invalid_part(word, &format!("is not in [topics]{meant}")))
        }
    }
}

/// Returns the buckets that a profile grants.
fn granted_buckets(raw: &RawSetting) -> Result<Vec<String>, SettingsError> {
    let granted = raw.strings()?;
    let is_valid = |word: &String| match word.strip_suffix('*') {
        Some(prefix) => prefix.is_empty() || check_name("bucket", prefix).is_ok(),
        None => check_name("bucket", word).is_ok(),
    };
    if let Some(word) = granted.iter().find(|word| !is_valid(word)) {
        return Err(raw.invalid_part(word, "must be a name of 1 to 255 bytes, or a prefix and a star"));
    }
    match granted.iter().find(|word| word.starts_with(TOPIC_BUCKETS)) {
        None => Ok(granted),
        Some(word) => Err(raw.invalid_part(word, "belongs to a topic: grant the topic with topics instead")),
    }
}

/// Creates a process from its settings, whatever their origin.
fn process(
    section: &ProcessSection,
    module: PathBuf,
    name: String,
    profiles: &Profiles,
) -> Result<Process, SettingsError> {
    let count = section.count.map_or(1, |count| count.0 as u32);
    Ok(Process {
        name: section.name.as_ref().map_or(Ok(name), |raw| process_name(raw, true, ""))?,
        module,
        args: section.args.0.clone(),
        count,
        profile: section
            .profile
            .as_ref()
            .map_or_else(|| Ok(SANDBOXED.to_owned()), |raw| known_profile(raw, profiles))?,
        limits: section.limits(),
        register: section
            .register
            .as_ref()
            .map(|raw| process_name(raw, count == 1, ", and process.count must be 1"))
            .transpose()?,
        restart: section.restart.map_or(Restart::Transient, |restart| restart.0),
        shutdown: section.shutdown.map_or(Shutdown::Timeout(Duration::from_secs(5)), |shutdown| shutdown.0),
    })
}

/// Returns the name of a process, if it has a valid length and `is_allowed`.
fn process_name(raw: &RawSetting, is_allowed: bool, rule: &str) -> Result<String, SettingsError> {
    let text = raw.text()?;
    if is_allowed && check_name("process", text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(raw.invalid(&format!("must be 1 to {NAME_MAX_BYTES} bytes long{rule}")))
}

impl Words for Restart {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("permanent", Self::Permanent), ("transient", Self::Transient), ("temporary", Self::Temporary)]
    }
}

impl Words for Strategy {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("one_for_one", Self::OneForOne), ("one_for_all", Self::OneForAll), ("rest_for_one", Self::RestForOne)]
    }
}

impl Words for InstanceAllocator {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("by_capacity", Self::ByCapacity), ("pool", Self::Pool), ("slabs", Self::Slabs)]
    }
}

impl Words for TopicStorage {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("memory", Self::InMemory), ("disk", Self::OnDisk)]
    }
}

/// `"brutal_kill"`, `"infinity"` or a time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct ShutdownSetting(Shutdown);

impl TryFrom<RawSetting> for ShutdownSetting {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let meant = raw.value.as_str().map(|text| did_you_mean(text, ["brutal_kill", "infinity"])).unwrap_or_default();
        let rule = format!("must be a time such as 5s, brutal_kill or infinity{meant}");
        match raw.value.as_str() {
            Some("brutal_kill") => Ok(Self(Shutdown::BrutalKill)),
            Some("infinity") => Ok(Self(Shutdown::Infinity)),
            _ => time(&raw, &rule).map(Shutdown::Timeout).map(Self),
        }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct Tick(Duration);

impl TryFrom<RawSetting> for Tick {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let (range, rule) =
            (Duration::from_micros(100)..=Duration::from_secs(1), "must be a time between 0.1ms and 1s");
        let tick = time(&raw, rule)?;
        if range.contains(&tick) { Ok(Self(tick)) } else { Err(raw.invalid(rule)) }
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct CompileTime(Duration);

impl TryFrom<RawSetting> for CompileTime {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let rule = "must be a time of whole seconds between 1s and 1d";
        let limit = time(&raw, rule)?;
        let is_valid = limit.subsec_nanos() == 0 && (1..=86_400).contains(&limit.as_secs());
        if is_valid { Ok(Self(limit)) } else { Err(raw.invalid(rule)) }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
struct CapabilityList(Vec<Capability>);

impl TryFrom<RawSetting> for CapabilityList {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        let known = Capability::ALL.map(Capability::word);
        let capability = |word: String| {
            word.parse().map_err(|_unknown| match did_you_mean(&word, known) {
                meant if meant.is_empty() => raw.invalid_part(&word, &format!("must be one of {}", known.join(", "))),
                meant => raw.invalid_part(&word, &format!("is not a capability{meant}")),
            })
        };
        raw.strings()?.into_iter().map(capability).collect::<Result<_, _>>().map(Self)
    }
}

/// Directory of compiled modules; true for the default directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RawSetting")]
enum Cache {
    Flag(bool),
    In(String),
}

impl TryFrom<RawSetting> for Cache {
    type Error = SettingsError;

    fn try_from(raw: RawSetting) -> Result<Self, SettingsError> {
        match raw.value {
            Value::Boolean(flag) => Ok(Self::Flag(flag)),
            Value::String(dir) => Ok(Self::In(dir)),
            _ => Err(raw.wrong_type("a directory, true or false")),
        }
    }
}

/// Returns the default name of a module: its file name without the extension.
pub(crate) fn stem(module: &Path) -> String {
    module.file_stem().map_or_else(|| "guest".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Returns `$XDG_CACHE_HOME/rusm` or `~/.cache/rusm`; `None` without a home directory.
pub(crate) fn default_cache_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.map(|dir| dir.join("rusm"))
}

#[cfg(test)]
mod tests;
