//! Encodes engines, their modules and faults, and the facts that the body of one process reports.

use rusm_protocol::{
    CacheInfo, Cell, Column, CountInfo, EngineInfo, Engines, FactInfo, FaultDetail, FaultId, FaultInfo, ModuleInfo,
    SlotsInfo, ViewWindow,
};

use super::text::cut;
use crate::view::table::sort_key::fact_of;
use rusm_runtime::NAME_MAX_BYTES;
use rusm_runtime::observe::{BodyFact, BodyInfo, CacheReport, EngineReport, FaultReport, ModuleReport};

/// Number of engines that are shown.
const ENGINES_SHOWN: usize = 8;
/// Number of faults that are shown.
const FAULTS_SHOWN: usize = 16;
/// Bytes of a function's name that are shown.
const FUNCTION_MAX_BYTES: usize = 200;

/// Returns true if a column needs information from the process's body.
pub(super) const fn is_body_column(column: Column) -> bool {
    matches!(column, Column::Kind | Column::Module) || fact_of(column).is_some()
}

/// Returns the cell of a column from the information that the body reports.
pub(super) fn body_cell(body_info: Option<&dyn BodyInfo>, column: Column) -> Cell {
    let cell = match column {
        Column::Kind => Some(Cell::Text(body_info.map_or("native", BodyInfo::kind).to_owned())),
        Column::Module => body_info.and_then(BodyInfo::source).map(|source| Cell::Text(cut(&source, NAME_MAX_BYTES))),
        column => body_info.zip(fact_of(column)).and_then(|(body_info, name)| body_info.fact(name)).map(value),
    };
    cell.unwrap_or(Cell::Empty(()))
}

fn value(fact: BodyFact) -> Cell {
    match fact {
        BodyFact::Bytes(count) | BodyFact::Count(count) => Cell::Count(count),
        BodyFact::Text(text) => Cell::Text(cut(&text, NAME_MAX_BYTES)),
    }
}

/// Returns all facts that the body of a process reports.
pub(super) fn facts(body_info: &dyn BodyInfo) -> Vec<FactInfo> {
    body_info.facts().into_iter().map(|(name, fact)| FactInfo { name: name.to_owned(), value: value(fact) }).collect()
}

/// Encodes the engines, a window of their modules and, in full, one of their faults.
pub(crate) fn engines(reports: &[EngineReport], window: ViewWindow, wanted: Option<FaultId>) -> Engines {
    let places = || (0..).zip(reports.iter().take(ENGINES_SHOWN));
    let mut modules: Vec<ModuleInfo> =
        places().flat_map(|(at, report)| report.modules.iter().map(move |known| module(at, known))).collect();
    modules.sort_by(|a, b| (b.live, b.started_total).cmp(&(a.live, a.started_total)).then_with(|| a.name.cmp(&b.name)));
    let mut faults: Vec<(FaultInfo, &FaultReport)> =
        places().flat_map(|(at, report)| report.faults.iter().map(move |known| (fault(at, known), known))).collect();
    faults.sort_by_key(|(info, _)| std::cmp::Reverse((info.at_ms, info.id.seq)));
    let total = modules.len() as u64;
    let offset = window.offset.min(total);
    let in_full = wanted.and_then(|id| faults.iter().find(|(info, _)| info.id == id));
    let in_full = in_full.map(|(info, known)| {
        let backtrace = known.backtrace.iter().map(|function| cut(function, FUNCTION_MAX_BYTES)).collect();
        Box::new(FaultDetail { fault: info.clone(), backtrace })
    });
    Engines {
        engines: places().map(|(_, report)| engine(report)).collect(),
        total,
        offset,
        modules: modules.into_iter().skip(offset as usize).take(window.len as usize).collect(),
        faults: faults.into_iter().map(|(info, _)| info).take(FAULTS_SHOWN).collect(),
        fault: in_full,
        ..Engines::default()
    }
}

fn engine(report: &EngineReport) -> EngineInfo {
    let counts = |counts: &[(&'static str, u64)]| {
        counts.iter().map(|(name, count)| CountInfo { name: (*name).to_owned(), count: *count }).collect()
    };
    let slots =
        report.slots.iter().map(|(name, of)| SlotsInfo { name: (*name).to_owned(), used: of.used, slots: of.slots });
    EngineInfo {
        kind: report.kind.to_owned(),
        room: report.room.to_owned(),
        capacity: report.capacity,
        live: report.live,
        started_total: report.started_total,
        refused_total: report.refused_total,
        slots: slots.collect(),
        ticks_total: report.ticks_total,
        tick_us: report.tick.as_micros() as u64,
        is_ticking: report.is_ticking,
        cache: cache(report.cache),
        faults_total: counts(&report.faults_total),
        refusals_total: counts(&report.refusals_total),
    }
}

const fn cache(report: CacheReport) -> CacheInfo {
    CacheInfo {
        entries: report.entries,
        bytes: report.bytes,
        max_bytes: report.max_bytes,
        hits_total: report.hits_total,
        misses_total: report.misses_total,
        evictions_total: report.evictions_total,
        damaged_total: report.damaged_total,
        unkept_total: report.unkept_total,
    }
}

fn module(engine: u32, report: &ModuleReport) -> ModuleInfo {
    ModuleInfo {
        name: cut(&report.name, NAME_MAX_BYTES),
        kind: report.kind.to_owned(),
        engine,
        live: report.live,
        started_total: report.started_total,
        faults_total: report.faults_total,
    }
}

fn fault(engine: u32, report: &FaultReport) -> FaultInfo {
    FaultInfo {
        id: FaultId { engine, seq: report.seq },
        at_ms: report.at.as_millis() as u64,
        pid: report.pid.to_string(),
        module: cut(&report.module, NAME_MAX_BYTES),
        code: report.code.to_owned(),
        function: report.backtrace.first().map(|function| cut(function, FUNCTION_MAX_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use rusm_runtime::Pid;

    fn report(modules: &[(&str, u64)], faults: std::ops::Range<u64>) -> EngineReport {
        let module = |(name, live): &(&str, u64)| ModuleReport {
            name: Arc::from(*name),
            kind: "module",
            live: *live,
            started_total: *live,
            faults_total: 0,
        };
        let fault = |seq| FaultReport {
            seq,
            at: Duration::from_secs(seq),
            pid: Pid::NONE,
            module: "m".into(),
            code: "unreachable",
            backtrace: ["inner".to_owned(), "run".to_owned()].into(),
        };
        EngineReport {
            modules: modules.iter().map(module).collect(),
            faults: faults.map(fault).collect(),
            ..EngineReport::default()
        }
    }

    #[test]
    fn a_window_holds_the_modules_of_all_engines_the_busiest_first() {
        let reports = [report(&[("a", 1), ("b", 9)], 1..1), report(&[("c", 5)], 1..1)];

        let seen = engines(&reports, ViewWindow { offset: 1, len: 1 }, None);

        assert_eq!((seen.total, seen.offset, seen.engines.len()), (3, 1, 2));
        assert_eq!(seen.modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn faults_come_newest_first_and_only_the_wanted_one_with_its_backtrace() {
        let reports = [report(&[], 1..17), report(&[], 1..17)];

        let seen = engines(&reports, ViewWindow::default(), Some(FaultId { engine: 1, seq: 3 }));

        assert_eq!((seen.faults.len(), seen.faults[0].id.seq), (FAULTS_SHOWN, 16));
        assert_eq!(seen.fault.map(|fault| fault.backtrace), Some(vec!["inner".to_owned(), "run".to_owned()]));
        assert_eq!(engines(&reports, ViewWindow::default(), Some(FaultId { engine: 2, seq: 3 })).fault, None);
    }
}
