//! The sections of `rusm.toml` that describe an application: the guests that `rusm run` starts.
//!
//! ```text
//!   [[process]] [modules] [supervisor] ─▶ which guests run, and which are restarted together
//!   [profile.NAME] [limits] [engine]   ─▶ capabilities and limits of guests, and their instance allocator
//! ```
//!
//! `docs/run.md` describes every key; a test compares it with the list below.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusm_runtime::NAME_MAX_BYTES;
use rusm_runtime::supervisor::{Backoff, Intensity, Restart, Shutdown, Strategy};
use rusm_wasm::{Capability, GuestLimits, InstanceAllocator, Profiles, SANDBOXED, WasmConfig};
use toml::{Table, Value};

use crate::run::topics::Kept;
use crate::settings::limits::{self, limits};
use crate::settings::look::Look;
use crate::settings::origin::{AllGiven, Form, Given, did_you_mean, one_line, unknown};
use crate::settings::{SettingsError, parse_duration};

/// Sections of the file that describe an application.
pub(crate) const SECTIONS: [&str; 7] = ["process", "modules", "topics", "supervisor", "profile", "limits", "engine"];

/// All keys, and the form of their values in the file. `NAME` stands for a name chosen by the user; lists have no form.
const KEYS: [(&str, Option<Form>); 45] = [
    ("process.name", Some(Form::Text)),
    ("process.module", Some(Form::Text)),
    ("process.args", None),
    ("process.count", Some(Form::Number)),
    ("process.profile", Some(Form::Text)),
    ("process.memory_max", Some(Form::Size)),
    ("process.table_max_elements", Some(Form::Number)),
    ("process.parts_max", Some(Form::Number)),
    ("process.message_max", Some(Form::Size)),
    ("process.cpu_max", Some(Form::Number)),
    ("process.sent_max", Some(Form::Size)),
    ("process.mailbox_capacity", Some(Form::Number)),
    ("process.register", Some(Form::Text)),
    ("process.restart", Some(Form::Text)),
    ("process.shutdown", Some(Form::Time)),
    ("modules.NAME", Some(Form::Text)),
    ("topics.NAME", Some(Form::Text)),
    ("supervisor.strategy", Some(Form::Text)),
    ("supervisor.intensity", Some(Form::Number)),
    ("supervisor.period", Some(Form::Time)),
    ("supervisor.backoff_first", Some(Form::Time)),
    ("supervisor.backoff_limit", Some(Form::Time)),
    ("profile.NAME.capabilities", None),
    ("profile.NAME.buckets", None),
    ("profile.NAME.topics", None),
    ("profile.NAME.memory_max", Some(Form::Size)),
    ("profile.NAME.table_max_elements", Some(Form::Number)),
    ("profile.NAME.parts_max", Some(Form::Number)),
    ("profile.NAME.message_max", Some(Form::Size)),
    ("profile.NAME.cpu_max", Some(Form::Number)),
    ("profile.NAME.sent_max", Some(Form::Size)),
    ("profile.NAME.mailbox_capacity", Some(Form::Number)),
    ("limits.memory_max", Some(Form::Size)),
    ("limits.table_max_elements", Some(Form::Number)),
    ("limits.parts_max", Some(Form::Number)),
    ("limits.message_max", Some(Form::Size)),
    ("limits.sent_max", Some(Form::Size)),
    ("limits.log_lines", Some(Form::Number)),
    ("limits.log_bytes", Some(Form::Size)),
    ("engine.capacity", Some(Form::Number)),
    ("engine.room", Some(Form::Text)),
    ("engine.tick", Some(Form::Time)),
    ("engine.cache", Some(Form::Place)),
    ("engine.cache_max", Some(Form::Size)),
    ("engine.spawn_by_path", Some(Form::Flag)),
];

/// Maximum number of processes of one entry; more than the engine's capacity are rejected anyway.
const COUNT_MAX: u64 = 1_000_000;
/// Names of the built-in profiles.
const BUILT_IN: [&str; 3] = [SANDBOXED, "network", "trusted"];

/// An application with valid settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub(crate) processes: Vec<Process>,
    /// Modules that guests can spawn by name.
    pub(crate) modules: BTreeMap<String, PathBuf>,
    /// Topics that guests use.
    pub(crate) topics: BTreeMap<String, Kept>,
    pub(crate) supervision: Supervision,
    pub(crate) wasm: WasmConfig,
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
        let file = File { name: path.display().to_string(), dir: path.parent().unwrap_or_else(|| Path::new("")) };
        let mut wasm = file.wasm(sections)?;
        let entries = match sections.get("process") {
            None => &[][..],
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(file.shape("process", "written as [[process]]")),
        };
        let (modules, supervision) = (file.modules(sections)?, file.supervision(sections)?);
        let processes: Vec<Process> = entries
            .iter()
            .enumerate()
            .map(|(place, entry)| file.process(place, entry, &modules, &wasm.profiles))
            .collect::<Result<_, _>>()?;
        let topics = file.topics(sections)?;
        wasm.topics = !topics.is_empty();
        let app = Self { processes, modules, topics, supervision, wasm };
        app.check(&file.name)?;
        Ok(app)
    }

    /// Returns an application with the same engine, limits and profiles, but with only the process that the command
    /// line describes.
    pub(crate) fn alone(
        self,
        module: &Path,
        name: &str,
        args: &[String],
        given: &AllGiven,
    ) -> Result<Self, SettingsError> {
        let process = process(given, module.to_owned(), name.to_owned(), args.to_vec(), &self.wasm.profiles)?;
        let app = Self { processes: vec![process], ..self };
        app.check("the command line")?;
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
            return Err(SettingsError::Crowd { origin, total, capacity });
        }
        match self.processes.iter().flat_map(Process::ids).find(|id| !ids.insert(Arc::clone(id))) {
            Some(id) => Err(SettingsError::Twice { id: id.to_string(), origin: origin.to_owned() }),
            None => Ok(()),
        }
    }
}

/// The file being read.
struct File<'a> {
    name: String,
    dir: &'a Path,
}

impl File<'_> {
    fn shape(&self, key: &'static str, due: &'static str) -> SettingsError {
        SettingsError::Shape { key, origin: self.name.clone(), due }
    }

    /// Returns the values of a section by their keys.
    fn section(name: &str, origin: &str, table: &Table) -> Result<AllGiven, SettingsError> {
        let mut given = AllGiven::new();
        for (word, value) in table {
            let dotted = format!("{name}.{word}");
            let Some((key, form)) = KEYS.iter().find(|(key, _)| *key == dotted) else {
                let known = KEYS.iter().map(|(key, _)| *key).filter(|key| key.starts_with(name));
                return Err(unknown(&dotted, origin, known));
            };
            let Some(form) = form else { continue };
            let Some(text) = form.text(value) else {
                let (value, origin) = (one_line(value), origin.to_owned());
                return Err(SettingsError::Type { key, value, origin, due: form.due() });
            };
            given.insert(key, Given { value: text, origin: origin.to_owned() });
        }
        Ok(given)
    }

    fn process(
        &self,
        place: usize,
        entry: &Value,
        modules: &BTreeMap<String, PathBuf>,
        profiles: &Profiles,
    ) -> Result<Process, SettingsError> {
        let Value::Table(entry) = entry else { return Err(self.shape("process", "written as [[process]]")) };
        let said = entry.get("name").or_else(|| entry.get("module")).and_then(Value::as_str);
        let origin = match said {
            Some(name) => format!("{} (process {name:?})", self.name),
            None => format!("{} (process {})", self.name, place + 1),
        };
        let given = Self::section("process", &origin, entry)?;
        let Some(said) = given.get("process.module") else {
            return Err(SettingsError::Missing { key: "process.module", origin });
        };
        let named = modules.get(&said.value);
        let module = named.map_or_else(|| self.dir.join(&said.value), PathBuf::clone);
        let name = match given.get("process.name") {
            Some(name) => name.value.clone(),
            None if named.is_some() => said.value.clone(),
            None => stem(&module),
        };
        let args = entry.get("args").map(|args| strings("process.args", &origin, args)).transpose()?;
        process(&given, module, name, args.unwrap_or_default(), profiles)
    }

    fn table<'a>(&self, sections: &'a Table, key: &'static str) -> Result<Option<&'a Table>, SettingsError> {
        match sections.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(_) => Err(self.shape(key, "a section of its own")),
        }
    }

    fn given(&self, sections: &Table, key: &'static str) -> Result<AllGiven, SettingsError> {
        let table = self.table(sections, key)?;
        table.map_or_else(|| Ok(AllGiven::new()), |table| Self::section(key, &self.name, table))
    }

    fn modules(&self, sections: &Table) -> Result<BTreeMap<String, PathBuf>, SettingsError> {
        let Some(table) = self.table(sections, "modules")? else { return Ok(BTreeMap::new()) };
        let path = |(name, path): (&String, &Value)| match path {
            Value::String(path) => Ok((name.clone(), self.dir.join(path))),
            other => Err(SettingsError::Type {
                key: "modules.NAME",
                value: one_line(other),
                origin: self.name.clone(),
                due: "the path of a module",
            }),
        };
        table.iter().map(path).collect()
    }

    fn topics(&self, sections: &Table) -> Result<BTreeMap<String, Kept>, SettingsError> {
        let Some(table) = self.table(sections, "topics")? else { return Ok(BTreeMap::new()) };
        let kept = |(name, kept): (&String, &Value)| match kept.as_str() {
            Some("memory") => Ok((name.clone(), Kept::InMemory)),
            Some("disk") => Ok((name.clone(), Kept::OnDisk)),
            Some(word) => Err(SettingsError::Value {
                key: "topics.NAME",
                value: word.to_owned(),
                origin: format!("{} (topic {name:?})", self.name),
                wanted: format!("must be memory or disk{}", did_you_mean(word, ["memory", "disk"])),
            }),
            None => Err(SettingsError::Type {
                key: "topics.NAME",
                value: one_line(kept),
                origin: format!("{} (topic {name:?})", self.name),
                due: "\"memory\" or \"disk\"",
            }),
        };
        table.iter().map(kept).collect()
    }

    fn supervision(&self, sections: &Table) -> Result<Supervision, SettingsError> {
        let given = self.given(sections, "supervisor")?;
        let (look, default) = (Look(&given), Supervision::default());
        let strategies = [
            ("one_for_one", Strategy::OneForOne),
            ("one_for_all", Strategy::OneForAll),
            ("rest_for_one", Strategy::RestForOne),
        ];
        let wanted = "must be one_for_one, one_for_all or rest_for_one";
        let strategy = look.word("supervisor.strategy", wanted, &strategies)?;
        let restarts = look.count("supervisor.intensity", 0, u32::MAX.into(), default.intensity.restarts.into())?;
        let period = look.time("supervisor.period")?.unwrap_or(default.intensity.period);
        let (first, limit) = (look.time("supervisor.backoff_first")?, look.time("supervisor.backoff_limit")?);
        let backoff = (first.is_some() || limit.is_some()).then(|| {
            let first = first.unwrap_or(Duration::ZERO);
            Backoff { first, limit: limit.unwrap_or(Duration::from_secs(30)).max(first) }
        });
        Ok(Supervision {
            strategy: strategy.unwrap_or(default.strategy),
            intensity: Intensity { restarts: restarts as u32, period },
            backoff,
        })
    }

    fn wasm(&self, sections: &Table) -> Result<WasmConfig, SettingsError> {
        let mut given = self.given(sections, "engine")?;
        given.extend(self.given(sections, "limits")?);
        let (look, default) = (Look(&given), WasmConfig::default());
        let allocators = [
            ("by_capacity", InstanceAllocator::ByCapacity),
            ("pool", InstanceAllocator::Pool),
            ("slabs", InstanceAllocator::Slabs),
        ];
        let allocator = look.word("engine.room", "must be by_capacity, pool or slabs", &allocators)?;
        let cache_dir = match look.text("engine.cache") {
            None | Some("true") => usual_cache_dir(),
            Some("false") => None,
            Some(dir) => Some(self.dir.join(dir)),
        };
        Ok(WasmConfig {
            capacity: look.count("engine.capacity", 1, 16_000_000, default.capacity.into())? as u32,
            allocator: allocator.unwrap_or(default.allocator),
            memory_max_bytes: look
                .bytes("limits.memory_max", limits::MEMORY_MAX_BYTES)?
                .unwrap_or(default.memory_max_bytes),
            table_max_elements: look.count(
                "limits.table_max_elements",
                1,
                limits::TABLE_MAX_ELEMENTS,
                default.table_max_elements.into(),
            )? as u32,
            parts_max: look.count("limits.parts_max", 1, limits::PARTS_MAX, default.parts_max.into())? as u32,
            message_max_bytes: look
                .bytes("limits.message_max", limits::MESSAGE_MAX_BYTES)?
                .map_or(default.message_max_bytes, |bytes| bytes as u32),
            sent_max_bytes: look.bytes("limits.sent_max", u64::MAX)?.unwrap_or(default.sent_max_bytes),
            log_lines_per_sec: look.count(
                "limits.log_lines",
                1,
                u64::from(u32::MAX),
                default.log_lines_per_sec.into(),
            )? as u32,
            log_bytes_per_sec: look.bytes("limits.log_bytes", u64::MAX)?.unwrap_or(default.log_bytes_per_sec),
            tick: look.tick("engine.tick")?.unwrap_or(default.tick),
            cache_dir,
            cache_max_bytes: look.bytes("engine.cache_max", 1 << 50)?.unwrap_or(default.cache_max_bytes),
            spawn_by_path: look.text("engine.spawn_by_path") == Some("true"),
            profiles: self.profiles(sections)?,
            topics: false,
            // `rusm run` opens the store.
            store: None,
        })
    }

    fn profiles(&self, sections: &Table) -> Result<Profiles, SettingsError> {
        let mut profiles = Profiles::default();
        for (name, profile) in self.table(sections, "profile")?.into_iter().flatten() {
            let origin = format!("{} (profile {name:?})", self.name);
            if BUILT_IN.contains(&name.as_str()) {
                return Err(SettingsError::BuiltIn { name: name.clone(), origin: self.name.clone() });
            }
            let Value::Table(profile) = profile else {
                return Err(self.shape("profile", "a section such as [profile.NAME]"));
            };
            let given = Self::section("profile.NAME", &origin, profile)?;
            let key = "profile.NAME.capabilities";
            let Some(words) = profile.get("capabilities") else { return Err(SettingsError::Missing { key, origin }) };
            let capabilities = strings(key, &origin, words)?.into_iter().map(|word| {
                word.parse::<Capability>().map_err(|_unknown| {
                    let known = Capability::ALL.map(Capability::word);
                    let meant = did_you_mean(&word, known);
                    let wanted = if meant.is_empty() {
                        format!("must be one of {}", known.join(", "))
                    } else {
                        format!("is not a capability{meant}")
                    };
                    SettingsError::Value { key, value: word, origin: origin.clone(), wanted }
                })
            });
            profiles.set(name.as_str(), capabilities.collect::<Result<_, _>>()?);
            profiles.set_limits(name, limits(&Look(&given), &limits::OF_PROFILE)?);
            if let Some(buckets) = profile.get("buckets") {
                profiles.set_buckets(name, strings("profile.NAME.buckets", &origin, buckets)?);
            }
            if let Some(topics) = profile.get("topics") {
                profiles.set_topics(name, self.granted_topics(sections, &origin, topics)?);
            }
        }
        Ok(profiles)
    }

    /// Returns the topics granted to a profile. Guests cannot create topics, so a name that is not in the file is an
    /// error.
    fn granted_topics(&self, sections: &Table, origin: &str, topics: &Value) -> Result<Vec<String>, SettingsError> {
        let key = "profile.NAME.topics";
        let made = || self.table(sections, "topics").into_iter().flatten().flat_map(Table::keys).map(String::as_str);
        let granted = strings(key, origin, topics)?;
        match granted.iter().find(|word| !word.ends_with('*') && !made().any(|name| name == *word)) {
            None => Ok(granted),
            Some(word) => Err(SettingsError::Value {
                key,
                value: word.clone(),
                origin: origin.to_owned(),
                wanted: format!("is not in [topics]{}", did_you_mean(word, made())),
            }),
        }
    }
}

/// Creates a process from its settings, whatever their origin.
fn process(
    given: &AllGiven,
    module: PathBuf,
    name: String,
    args: Vec<String>,
    profiles: &Profiles,
) -> Result<Process, SettingsError> {
    let look = Look(given);
    let restarts =
        [("permanent", Restart::Permanent), ("transient", Restart::Transient), ("temporary", Restart::Temporary)];
    let find = |word: &str| profiles.find(word).is_ok().then(|| word.to_owned());
    let known: Vec<&str> = profiles.names().collect();
    let profile = look.parsed("process.profile", &format!("must be one of {}", known.join(", ")), &known, find)?;
    let count = look.count("process.count", 1, COUNT_MAX, 1)? as u32;
    let is_name = |text: &str| (!text.is_empty() && text.len() <= NAME_MAX_BYTES).then(|| text.to_owned());
    let is_alone = |text: &str| is_name(text).filter(|_| count == 1);
    Ok(Process {
        name: look
            .parsed("process.name", &format!("must be 1 to {NAME_MAX_BYTES} bytes long"), &[], is_name)?
            .unwrap_or(name),
        module,
        args,
        count,
        profile: profile.unwrap_or_else(|| SANDBOXED.to_owned()),
        limits: limits(&look, &limits::OF_PROCESS)?,
        register: look.parsed(
            "process.register",
            &format!("must be 1 to {NAME_MAX_BYTES} bytes long, and process.count must be 1"),
            &[],
            is_alone,
        )?,
        restart: look
            .word("process.restart", "must be permanent, transient or temporary", &restarts)?
            .unwrap_or(Restart::Transient),
        shutdown: look
            .parsed(
                "process.shutdown",
                "must be a time such as 5s, brutal_kill or infinity",
                &["brutal_kill", "infinity"],
                |word| match word {
                    "brutal_kill" => Some(Shutdown::BrutalKill),
                    "infinity" => Some(Shutdown::Infinity),
                    time => parse_duration(time).map(Shutdown::Timeout),
                },
            )?
            .unwrap_or(Shutdown::Timeout(Duration::from_secs(5))),
    })
}

fn strings(key: &'static str, origin: &str, value: &Value) -> Result<Vec<String>, SettingsError> {
    let strings = value.as_array().and_then(|items| {
        items.iter().map(|item| item.as_str().map(ToOwned::to_owned)).collect::<Option<Vec<String>>>()
    });
    strings.ok_or_else(|| {
        let (value, origin) = (one_line(value), origin.to_owned());
        SettingsError::Type { key, value, origin, due: "a list of strings" }
    })
}

/// Returns the default name of a module: its file name without the extension.
pub(crate) fn stem(module: &Path) -> String {
    module.file_stem().map_or_else(|| "guest".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Returns `$XDG_CACHE_HOME/rusm` or `~/.cache/rusm`; `None` without a home directory.
pub(crate) fn usual_cache_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    cache.map(|dir| dir.join("rusm"))
}

#[cfg(test)]
mod tests;
