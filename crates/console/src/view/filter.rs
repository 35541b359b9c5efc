//! Evaluates the filter of a process table on the counters of a process.
//!
//! Conditions on numbers are evaluated from a process's counters alone. Names are looked up only for processes that
//! have one. Free text never formats a pid: text that parses as a pid or as a slot number is compared as a number.

use rusm_protocol::{Column, FilterField, FilterSubject, ProcessFilter, QueryError};

use rusm_runtime::observe::{self, BodyFact, BodyInfo, ProcessRef, ProcessState};

use crate::view::table::sort_key::{FilterRates, fact_of};

/// A filter, and the columns with rates that it compares.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    filter: ProcessFilter,
    rates: Vec<Column>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    /// [`QueryError`] with the position of the word that is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let filter = ProcessFilter::parse(text)?;
        let rates = filter.rates().into_iter().filter_map(rate_column).collect();
        Ok(Self { filter, rates })
    }

    /// Returns true if every process matches.
    pub(crate) fn is_empty(&self) -> bool {
        self.filter.is_empty()
    }

    /// Returns the columns with rates that the filter compares.
    pub(crate) fn rates(&self) -> &[Column] {
        &self.rates
    }

    /// Returns true if the process matches. All rates must be in `rates`.
    #[inline]
    pub(crate) fn matches_process(&self, seen: &ProcessRef<'_>, now_ms: u64, rates: &FilterRates) -> bool {
        self.filter.matches(&Subject { seen, now_ms, rates })
    }
}

/// Returns the column of a rate.
fn rate_column(field: FilterField) -> Option<Column> {
    match field {
        FilterField::RedsPerSec => Some(Column::RedsPerSec),
        FilterField::MsgsPerSec => Some(Column::MsgsPerSec),
        FilterField::ArrivalsPerSec => Some(Column::ArrivalsPerSec),
        FilterField::BusyMilliPct => Some(Column::BusyPct),
        _ => None,
    }
}

/// A process as a filter sees it.
struct Subject<'a, 'b> {
    seen: &'a ProcessRef<'b>,
    now_ms: u64,
    rates: &'a FilterRates,
}

impl FilterSubject for Subject<'_, '_> {
    #[inline]
    fn number(&self, field: FilterField) -> u64 {
        let seen = self.seen;
        match field {
            FilterField::Mailbox => seen.mailbox_len(),
            FilterField::MailboxBytes => seen.mailbox_bytes(),
            FilterField::MemoryBytes => seen.memory_bytes(),
            FilterField::Reductions => seen.reductions(),
            FilterField::Messages => seen.messages(),
            FilterField::AgeMs => self.now_ms.saturating_sub(seen.spawned_ms()),
            FilterField::BusyNs => seen.busy_ns(),
            FilterField::Parent => u64::from(seen.parent_slot()),
            FilterField::Links => observe::link_counts(seen).0,
            FilterField::Monitors => observe::link_counts(seen).1,
            FilterField::LinearBytes => fact(seen, Column::LinearMemoryBytes).map_or(0, |fact| match fact {
                BodyFact::Bytes(count) | BodyFact::Count(count) => count,
                BodyFact::Text(_) => 0,
            }),
            rate => rate_column(rate).map_or(0, |column| self.rates.of(column)),
        }
    }

    fn any_text(&self, field: FilterField, matches: &mut dyn FnMut(&str) -> bool) -> bool {
        let seen = self.seen;
        match field {
            FilterField::Module => {
                observe::body_info_of(seen).and_then(|body| body.source()).is_some_and(|it| matches(&it))
            }
            FilterField::Kind => matches(observe::body_info_of(seen).as_deref().map_or("native", BodyInfo::kind)),
            FilterField::Profile | FilterField::HostCall => {
                let column = if field == FilterField::Profile { Column::Profile } else { Column::LastHostCall };
                matches!(fact(seen, column), Some(BodyFact::Text(text)) if matches(&text))
            }
            _ => {
                let (name, label) = observe::names(seen);
                [name, label].into_iter().flatten().any(|called| matches(&called))
            }
        }
    }

    fn is_in(&self, state: &str) -> bool {
        let is = self.seen.state();
        match state {
            "stuck" => self.seen.is_stuck(),
            "run" => is == ProcessState::Running,
            "wait" => is == ProcessState::Waiting,
            "sleep" => is == ProcessState::Sleeping,
            word => is.word() == word,
        }
    }

    fn pid(&self) -> (u32, u32) {
        (self.seen.slot(), self.seen.generation())
    }
}

fn fact(seen: &ProcessRef<'_>, column: Column) -> Option<BodyFact> {
    observe::body_info_of(seen)?.fact(fact_of(column)?)
}
