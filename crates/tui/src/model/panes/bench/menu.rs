//! The scenario menu: a heading for each family, followed by its scenarios.

use rusm_protocol::ScenarioMeta;

use crate::model::selection::first_visible;

/// Number of rows to keep visible below the selected one, where possible.
const MARGIN: u16 = 2;

/// A row of the menu.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MenuRow<'a> {
    /// The heading of a family.
    Family(&'a str),
    /// A scenario and its index among all scenarios.
    Scenario(usize, &'a ScenarioMeta),
}

/// Returns the indices of the scenarios that a text finds: each of its words must occur in the id, the name, the family
/// or the description. Without a text, returns all.
pub(crate) fn matching(scenarios: &[ScenarioMeta], find: Option<&str>) -> Vec<usize> {
    let words: Vec<String> = find.unwrap_or_default().split_whitespace().map(str::to_lowercase).collect();
    let is_found = |scenario: &ScenarioMeta| {
        let ScenarioMeta { id, label, family, description, .. } = scenario;
        let text = format!("{id} {label} {family} {description}").to_lowercase();
        words.iter().all(|word| text.contains(word))
    };
    (0..scenarios.len()).filter(|at| is_found(&scenarios[*at])).collect()
}

/// Returns the rows of the scenarios that a text finds. Headings are omitted if all scenarios have one family.
pub(crate) fn rows<'a>(scenarios: &'a [ScenarioMeta], find: Option<&str>) -> Vec<MenuRow<'a>> {
    let has_families = scenarios.windows(2).any(|pair| pair[0].family != pair[1].family);
    let mut rows = Vec::with_capacity(scenarios.len() + 8);
    let mut family = None;
    for at in matching(scenarios, find) {
        let scenario = &scenarios[at];
        if has_families && family != Some(&scenario.family) {
            family = Some(&scenario.family);
            rows.push(MenuRow::Family(&scenario.family));
        }
        rows.push(MenuRow::Scenario(at, scenario));
    }
    rows
}

/// Returns the rows that a menu of `height` lines shows. The selected scenario is always among them.
pub(crate) fn visible<'a>(
    scenarios: &'a [ScenarioMeta],
    find: Option<&str>,
    selected: usize,
    height: u16,
) -> Vec<MenuRow<'a>> {
    let rows = rows(scenarios, find);
    let position = rows.iter().position(|row| matches!(row, MenuRow::Scenario(at, _) if *at == selected));
    let margin = MARGIN.min(height / 4);
    let last = (position.unwrap_or(0) + usize::from(margin)).min(rows.len().saturating_sub(1));
    let first = first_visible(last, height);
    rows.into_iter().skip(first).take(height.into()).collect()
}

/// Returns the first scenario of the next family. Backwards, returns the first scenario of this family, or of the
/// previous one if this is already selected.
pub(crate) fn family_from(scenarios: &[ScenarioMeta], selected: usize, is_forward: bool) -> usize {
    let begins = |at: &usize| *at == 0 || scenarios[*at - 1].family != scenarios[*at].family;
    let found = if is_forward {
        (selected + 1..scenarios.len()).find(begins)
    } else {
        (0..selected.min(scenarios.len())).rev().find(begins)
    };
    found.unwrap_or(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenarios(families: &[&str]) -> Vec<ScenarioMeta> {
        let scenario = |family: &&str| ScenarioMeta { family: (*family).to_owned(), ..ScenarioMeta::default() };
        families.iter().map(scenario).collect()
    }

    #[test]
    fn each_family_has_its_heading_unless_there_is_but_one() {
        let two = scenarios(&["a", "a", "b"]);
        let headings = |row: &MenuRow<'_>| matches!(row, MenuRow::Family(_));

        assert_eq!(rows(&two, None).iter().map(headings).collect::<Vec<_>>(), [true, false, false, true, false]);
        assert_eq!(rows(&scenarios(&["a", "a"]), None).len(), 2);
        assert_eq!(rows(&[], None), []);
    }

    #[test]
    fn scenarios_are_found_by_their_words_under_the_headings_of_their_families() {
        let mut many = scenarios(&["rings", "rings", "topics"]);
        for (scenario, id) in many.iter_mut().zip(["ring-size", "ring-wake", "topic-mix"]) {
            scenario.id = id.to_owned();
        }

        assert_eq!(matching(&many, Some("RING wak")), [1]);
        assert_eq!(matching(&many, Some("topics")), [2]);
        assert_eq!((matching(&many, Some("zz")), matching(&many, None).len()), (Vec::new(), 3));
        assert!(matches!(rows(&many, Some("mix"))[..], [MenuRow::Family("topics"), MenuRow::Scenario(2, _)]));
    }

    #[test]
    fn the_selected_scenario_is_always_to_be_seen() {
        let many = scenarios(&["a", "a", "b", "b", "c"]);
        for selected in 0..many.len() {
            for height in 1..=8 {
                let seen = visible(&many, None, selected, height);
                assert!(seen.iter().any(|row| matches!(row, MenuRow::Scenario(at, _) if *at == selected)));
            }
        }
    }

    #[test]
    fn families_are_gone_through_by_their_first_scenario() {
        let many = scenarios(&["a", "a", "b", "b", "c"]);
        let from = |selected, is_forward| family_from(&many, selected, is_forward);

        assert_eq!([from(0, true), from(2, true), from(4, true)], [2, 4, 4]);
        assert_eq!([from(4, false), from(3, false), from(2, false), from(0, false)], [2, 2, 0, 0]);
        assert_eq!(family_from(&[], 0, true), 0);
    }
}
