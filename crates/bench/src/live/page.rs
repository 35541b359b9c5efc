//! Answers a view: the result that it selects, a comparison, and a page of the history.

use rusm_protocol::{Results, ResultsView, RunResult, ViewWindow};

use crate::live::encode::{TEXT_MAX, cut, page};
use crate::live::kept::{Current, ResultsState};
use crate::live::sheet::Sheet;

/// Returns what a view selects.
pub(crate) fn results(state: &mut ResultsState, view: &ResultsView) -> Results {
    let comparison = view.run.zip(view.against).map(|(after, before)| Box::new(state.compare(before, after)));
    let own = state.kept.len();
    let total = own + state.earlier.len();
    let skipped = usize::try_from(view.history.offset).unwrap_or(usize::MAX).min(total);
    let own_entries = state.kept.iter().rev().map(|kept| &kept.entry);
    let entries = own_entries.chain(state.earlier.iter().rev());
    Results {
        result: selected(state, view).map(Box::new),
        comparison,
        history_total: total as u64,
        history_offset: skipped as u64,
        history: entries.skip(skipped).take(view.history.len as usize).cloned().collect(),
        history_error: state.history_error.clone().map(|text| cut(&text, TEXT_MAX)),
        ..Results::default()
    }
}

fn selected(state: &ResultsState, view: &ResultsView) -> Option<RunResult> {
    let is_shown = |number: u64| view.run.is_none_or(|run| run == number);
    if let Some(current) = state.current.as_ref().filter(|current| is_shown(current.head.number)) {
        return Some(of_current(current, view.rows));
    }
    let newest = state.kept.iter().rev().find(|kept| is_shown(kept.head.number));
    if let Some((head, error)) = state.failed.as_ref().filter(|(head, _)| is_shown(head.number))
        && newest.is_none_or(|kept| kept.head.number < head.number)
    {
        let ended = page(head, &Sheet::default(), view.rows);
        return Some(RunResult {
            verdict: Some("failed".to_owned()),
            verdict_text: cut(&format!("failed: {error}"), TEXT_MAX),
            error: Some(cut(error, TEXT_MAX)),
            ..ended
        });
    }
    newest.map(|kept| page(&kept.head, &kept.sheet, view.rows))
}

fn of_current(current: &Current, rows: ViewWindow) -> RunResult {
    RunResult {
        state: current.state.to_owned(),
        step: current.step,
        steps: current.steps,
        progress: cut(&current.progress, TEXT_MAX),
        measured_ms: current.measured_ms,
        planned_ms: current.planned_ms,
        ..page(&current.head, &current.sheet, rows)
    }
}

#[cfg(test)]
mod tests {
    use rusm_protocol::{RunEntry, RunSettings, ViewWindow};

    use super::*;
    use crate::live::measurement::Head;
    use crate::report::document::DocumentKind;
    use crate::report::history::Entry;
    use crate::run::recipe::Recipe;

    fn head(number: u64) -> Head {
        let recipe = Recipe { scenario: "ping-pong".to_owned(), ..Recipe::default() };
        Head { number, kind: "run", recipe, settings: RunSettings::default(), takes_turns: true }
    }

    #[test]
    fn the_history_lists_the_newest_first_and_a_window_of_it() {
        let mut state = ResultsState::default();
        state.earlier = vec![RunEntry::default(); 3];
        for number in 1..=2 {
            let document = crate::report::document::Document::of(
                DocumentKind::Bench,
                head(number).recipe,
                crate::report::machine::Machine::default(),
                vec![crate::report::Report::default()],
            );
            let saved = vec![Entry::of(&document)];
            state.keep(head(number), crate::live::kept::Complete::Series(Box::new(document)), saved);
        }
        let at = |offset, len| ResultsView { history: ViewWindow { offset, len }, ..ResultsView::default() };

        let numbers = |results: Results| results.history.iter().map(|entry| entry.number).collect::<Vec<_>>();
        let first = results(&mut state, &at(0, 3));

        assert_eq!((first.history_total, first.result.as_ref().map(|result| result.number)), (5, Some(2)));
        assert_eq!(numbers(first), [2, 1, 0]);
        assert_eq!(numbers(results(&mut state, &at(1, 1))), [1]);
        assert_eq!(numbers(results(&mut state, &at(9, 9))), [0; 0]);
    }

    #[test]
    fn two_results_are_compared_and_what_cannot_be_says_why() {
        let mut state = ResultsState::default();
        let of = |run, against| ResultsView { run: Some(run), against: Some(against), ..ResultsView::default() };

        let comparison = results(&mut state, &of(2, 1)).comparison.unwrap();

        assert_eq!((comparison.outcome.as_str(), comparison.before, comparison.after), ("inconclusive", 1, 2));
        assert_eq!(comparison.notes, ["#1 is not in memory: only the last 50 results can be compared"]);
    }
}
