//! The file with the results of earlier runs.

use std::fs;
use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use rusm_store::{OpenError, SafeDatabase};
use rusm_text::escaped;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::judge::saturate::Saturation;
use crate::report::Verdict;
use crate::report::document::{Document, DocumentKind};
use crate::report::figure::{Better, Figure};
use crate::report::table::ColumnUnit;
use crate::run::recipe::Recipe;

/// Maximum number of entries.
pub const ENTRIES_MAX: u64 = 10_000;
/// Maximum wait for another program to close the file.
const OPEN_WITHIN: Duration = Duration::from_secs(2);
/// Name of the main figure of a search for the highest rate.
pub(crate) const STABLE_RATE: &str = "max_stable_rate_per_sec";
const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");

/// Summary of one report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Time of recording, in UTC.
    pub recorded_at: String,
    /// Kind of measurement.
    pub kind: DocumentKind,
    /// The recipe that repeats the measurement.
    pub recipe: Recipe,
    /// Verdict of the report.
    pub verdict: Verdict,
    /// Figures of the report, without the values of each run.
    pub figures: Vec<Figure>,
    /// Version of the program.
    pub version: String,
    /// Commit that the program was built from.
    pub commit: Option<String>,
    /// True if the sources differed from that commit.
    pub dirty: Option<bool>,
    /// Id of the machine.
    pub machine: Option<String>,
    /// Limits set by the control group, if they are below the machine's resources.
    #[serde(default)]
    pub limits: Option<String>,
}

impl Entry {
    /// Creates an entry from a report.
    pub fn of(document: &Document) -> Self {
        let short = |figure: &Figure| Figure { values: Vec::new(), ..figure.clone() };
        Self {
            recorded_at: document.recorded_at.clone(),
            kind: document.kind,
            recipe: document.recipe.clone(),
            verdict: document.verdict,
            figures: document.figures.iter().map(short).collect(),
            version: document.machine.version.clone(),
            commit: document.machine.commit.clone(),
            dirty: document.machine.dirty,
            machine: document.machine.id.clone(),
            limits: document.machine.limits(),
        }
    }

    /// Creates an entry from a search for the highest rate.
    pub fn of_saturation(found: &Saturation) -> Self {
        let figure = |name, rate: Option<f64>| Figure::of(name, ColumnUnit::Amount, Better::Higher, vec![rate?]);
        let found_by = [
            figure(STABLE_RATE, found.max_stable_rate),
            figure("max_rate_under_slo_per_sec", found.max_rate_under_slo),
            figure("capacity_per_sec", Some(found.capacity_per_sec)),
        ];
        let (verdict, recipe) = (found.verdict(), found.origin.recipe.clone());
        let (machine, recorded_at) = (found.origin.machine.clone(), found.origin.recorded_at.clone());
        let document = Document { recorded_at, ..Document::of(DocumentKind::Saturate, recipe, machine, Vec::new()) };
        Self { verdict, figures: found_by.into_iter().flatten().collect(), ..Self::of(&document) }
    }

    /// Returns the figure with this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }
}

/// Error returned if a history cannot be read or written.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The directory cannot be created.
    #[error("cannot create {}: {source}", escaped(.path.display()))]
    Folder {
        /// The directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another program has the file open.
    #[error("{} is open in another program", escaped(.path.display()))]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a history, or is damaged. Move it away.
    #[error("{} is not a readable history: {}", escaped(.path.display()), escaped(reason))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

/// A history file that is open.
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    database: SafeDatabase,
}

impl History {
    /// Opens a history file, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`HistoryError`] if the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        if let Some(folder) = path.parent() {
            let source = |source| HistoryError::Folder { path: folder.to_owned(), source };
            fs::create_dir_all(folder).map_err(source)?;
        }
        let deadline = Instant::now() + OPEN_WITHIN;
        loop {
            match SafeDatabase::open(path) {
                Ok(database) => return Ok(Self { path: path.to_owned(), database }),
                Err(OpenError::InUse { .. }) if Instant::now() < deadline => {
                    thread::park_timeout(Duration::from_millis(20));
                }
                Err(OpenError::InUse { .. }) => return Err(HistoryError::InUse { path: path.to_owned() }),
                Err(OpenError::Corrupt { what, .. }) => return Err(damaged(path, &what)),
                Err(error) => return Err(damaged(path, &error)),
            }
        }
    }

    /// Adds an entry, and drops the oldest entries beyond [`ENTRIES_MAX`].
    ///
    /// # Errors
    /// [`HistoryError::Damaged`] if the file cannot be written.
    pub fn add(&self, entry: &Entry) -> Result<(), HistoryError> {
        let json = serde_json::to_vec(entry).map_err(|error| damaged(&self.path, &error))?;
        let written =
            self.database.run(|database| write(database, &json)).map_err(|error| damaged(&self.path, &error))?;
        written.map_err(|error| damaged(&self.path, &error))
    }

    /// Returns all entries, or those of one scenario, the oldest first.
    ///
    /// # Errors
    /// [`HistoryError::Damaged`] if the file cannot be read.
    pub fn entries(&self, scenario: Option<&str>) -> Result<Vec<Entry>, HistoryError> {
        let all = self.database.run(read).map_err(|error| damaged(&self.path, &error))?;
        let all = all.map_err(|error| damaged(&self.path, &error))?;
        Ok(all.into_iter().filter(|entry| scenario.is_none_or(|id| entry.recipe.scenario == id)).collect())
    }
}

fn write(database: &Database, json: &[u8]) -> Result<(), redb::Error> {
    // Do not drop the transaction while a panic of redb unwinds: a second panic in its destructor would abort the
    // program.
    let writing = ManuallyDrop::new(database.begin_write()?);
    let insert = || -> Result<(), redb::Error> {
        let mut entries = writing.open_table(ENTRIES)?;
        let next = entries.last()?.map_or(0, |(key, _)| key.value() + 1);
        entries.insert(next, json)?;
        while entries.len()? > ENTRIES_MAX {
            entries.pop_first()?;
        }
        Ok(())
    };
    let inserted = insert();
    let writing = ManuallyDrop::into_inner(writing);
    inserted?;
    writing.commit()?;
    Ok(())
}

fn read(database: &Database) -> Result<Vec<Entry>, redb::Error> {
    let reading = database.begin_read()?;
    let entries = match reading.open_table(ENTRIES) {
        Ok(entries) => entries,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for entry in entries.iter()? {
        let (_, json) = entry?;
        // Skip entries that this version cannot read, for example those of a newer version.
        found.extend(serde_json::from_slice(json.value()).ok());
    }
    Ok(found)
}

fn damaged(path: &Path, error: &impl ToString) -> HistoryError {
    HistoryError::Damaged { path: path.to_owned(), reason: error.to_string() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::measure::interval::Rates;
    use crate::report::Report;
    use crate::report::machine::Machine;

    /// A directory that is removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("rusm-history-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    pub(in crate::report) fn entry(scenario: &str, rate: f64, commit: &str) -> Entry {
        let run = Report {
            ops_per_sec: Rates { median: rate, ..Rates::default() },
            cpu_ns_per_op: Some(1e9 / rate),
            verdict: Verdict::Steady,
            ..Report::default()
        };
        let recipe = Recipe { scenario: scenario.to_owned(), ..Recipe::default() };
        let machine = Machine { commit: Some(commit.to_owned()), version: "0.1.0".to_owned(), ..Machine::default() };
        let document = Document::of(DocumentKind::Bench, recipe, machine, vec![run; 6]);
        Entry { recorded_at: "2026-11-21T10:00:00Z".to_owned(), ..Entry::of(&document) }
    }

    #[test]
    fn entries_are_there_when_the_file_is_opened_again() {
        let folder = Folder::new("again");
        let path = folder.0.join("deep/history.redb");
        let entries = [entry("fan-in", 1e6, "a"), entry("ping-pong", 2e6, "a"), entry("fan-in", 3e6, "b")];

        let history = History::open(&path).unwrap();
        for entry in &entries {
            history.add(entry).unwrap();
        }
        drop(history);
        let history = History::open(&path).unwrap();

        assert_eq!(history.entries(None).unwrap(), entries);
        assert_eq!(history.entries(Some("fan-in")).unwrap().len(), 2);
    }

    #[test]
    fn a_new_history_is_empty() {
        let folder = Folder::new("new");

        assert_eq!(History::open(&folder.0.join("h.redb")).unwrap().entries(None).unwrap(), []);
    }

    #[test]
    fn what_is_no_history_is_said_and_left_as_it_is() {
        let folder = Folder::new("damaged");
        let path = folder.0.join("h.redb");
        fs::write(&path, "something else").unwrap();

        let error = History::open(&path).unwrap_err().to_string();

        assert!(error.contains("h.redb is not a readable history: ") && error.lines().count() == 1, "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"something else");
    }

    #[test]
    fn a_second_opener_is_told_in_the_end() {
        let folder = Folder::new("second");
        let path = folder.0.join("h.redb");
        let _first = History::open(&path).unwrap();

        let error = History::open(&path).unwrap_err().to_string();

        assert!(error.ends_with("h.redb is open in another program"), "{error}");
    }
}
