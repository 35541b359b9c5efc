//! The dialog before a measurement: its settings, then the parameters of the scenario.
//!
//! A field with a fixed set of words is changed with left and right; any other field is a text. Texts are read here, so
//! that a mistake is shown at its field and nothing is sent.

use std::collections::BTreeMap;

use rusm_protocol::{ParameterMeta, ResourceProfileMeta, RunSettings, ScenarioMeta};

use crate::model::input::key::{Key, KeyCode};
use crate::model::input::line_edit::LineEdit;
use crate::model::selection::wrapped;

/// Words for the kinds of measurements.
const KINDS: [&str; 5] = ["run", "sweep", "saturate", "soak", "ab"];

/// A line of the dialog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) meta: ParameterMeta,
    pub(crate) edit: LineEdit,
    /// Words to choose from; empty for a text.
    pub(crate) choices: Vec<String>,
    /// True for a setting of the measurement, false for a parameter of the scenario.
    pub(crate) is_setting: bool,
    /// Kinds of measurements that have this setting; empty for all.
    kinds: &'static [&'static str],
}

/// Settings and parameters of a measurement, as texts by name; values that are defaults are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) params: BTreeMap<String, String>,
}

/// The dialog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunDialog {
    pub(crate) scenario: String,
    pub(crate) at: usize,
    fields: Vec<Field>,
    /// Why these settings were rejected.
    pub(crate) refused: Option<String>,
}

impl RunDialog {
    /// Opens a dialog with the previously chosen values.
    pub(crate) fn new(
        scenario: &ScenarioMeta,
        profiles: &[ResourceProfileMeta],
        profile: &str,
        chosen: &Chosen,
    ) -> Self {
        let setting = |(name, default, range, description, kinds): Setting<'_>| {
            let meta = ParameterMeta {
                name: name.to_owned(),
                description: description.to_owned(),
                default: default.to_owned(),
                range: range.to_owned(),
            };
            Field::new(meta, chosen.settings.get(name), true, kinds)
        };
        let words: Vec<&str> = profiles.iter().map(|profile| profile.id.as_str()).collect();
        let profile_words = words.join(", ");
        let runs = "1-1000; searches or rounds: 1-100";
        let settings: [Setting<'_>; 10] = [
            (
                "kind",
                "run",
                "run, sweep, saturate, soak, ab",
                "what to measure; ab: interleaved with an earlier run",
                &[],
            ),
            ("profile", profile, &profile_words, "share of the machine", &[]),
            (
                "rate",
                "",
                "closed, or ops/s",
                "operations a second that an open loop offers; empty: closed loop",
                &["run", "sweep", "soak", "ab"],
            ),
            (
                "for",
                "",
                "until stopped, or 5s",
                "time to measure after the warm-up; empty: until stopped, or the usual time",
                &[],
            ),
            ("warm-up", "5s", "up to 1h", "longest warm-up; it ends earlier if the rate is steady", &[]),
            ("seed", "1", "a number", "seed of all random numbers", &[]),
            (
                "runs",
                "",
                runs,
                "runs; of each cell, searches or rounds; six give an interval",
                &["run", "sweep", "saturate", "ab"],
            ),
            ("grid", "", "name=a,b,c", "axes of the sweep, separated by spaces", &["sweep"]),
            ("p99", "", "20ms", "limit of the latency at its 99th percentile", &["saturate"]),
            ("baseline", "", "a number #", "result to compare with, by number; empty: the newest", &["ab"]),
        ];
        let parameters =
            scenario.parameters.iter().map(|meta| Field::new(meta.clone(), chosen.params.get(&meta.name), false, &[]));
        let fields = settings.into_iter().map(setting).chain(parameters).collect();
        Self { scenario: scenario.id.clone(), at: 0, fields, refused: None }
    }

    /// Returns the fields that this kind of measurement has.
    pub(crate) fn fields(&self) -> Vec<&Field> {
        self.shown().map(|at| &self.fields[at]).collect()
    }

    /// Returns the field under the cursor.
    pub(crate) fn field(&self) -> Option<&Field> {
        self.shown().nth(self.at).map(|at| &self.fields[at])
    }

    fn shown(&self) -> impl Iterator<Item = usize> + '_ {
        let kind = self.text("kind");
        (0..self.fields.len()).filter(move |at| {
            let kinds = self.fields[*at].kinds;
            kinds.is_empty() || kinds.contains(&kind.as_str())
        })
    }

    fn text(&self, name: &str) -> String {
        let field = self.fields.iter().find(|field| field.is_setting && field.meta.name == name);
        field.map_or_else(String::new, |field| field.edit.text().trim().to_owned())
    }

    /// Handles a key of the field under the cursor.
    pub(crate) fn press(&mut self, key: Key) {
        let Some(at) = self.shown().nth(self.at) else { return };
        let field = &mut self.fields[at];
        if field.choices.is_empty() {
            field.edit.press(key);
            return;
        }
        match key.code {
            KeyCode::Right | KeyCode::Char(' ') => field.cycle(1),
            KeyCode::Left => field.cycle(-1),
            KeyCode::Char(c) => field.choose(c),
            _ => {}
        }
    }

    /// Inserts pasted text into the field under the cursor.
    pub(crate) fn paste(&mut self, text: &str) {
        let Some(at) = self.shown().nth(self.at) else { return };
        let field = &mut self.fields[at];
        let word = text.trim();
        if field.choices.is_empty() {
            field.edit.insert(text);
        } else if field.choices.iter().any(|choice| choice == word) {
            field.edit = LineEdit::new(word);
        }
    }

    /// Moves to the next or previous field, wrapping around.
    pub(crate) fn step(&mut self, steps: isize) {
        self.at = wrapped(self.at, steps, self.shown().count());
    }

    /// Shows why the settings were rejected, and moves to the field that the reason names.
    pub(crate) fn refuse(&mut self, why: String) {
        let named = |field: &Field| {
            let name = field.meta.name.as_str();
            why.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).any(|word| word == name)
        };
        // The name of a parameter stands at the beginning; a later word may be the value of another field.
        let first = why.split_whitespace().next().unwrap_or_default().to_owned();
        let fields = self.fields();
        let at = fields
            .iter()
            .position(|field| field.meta.name == first)
            .or_else(|| fields.iter().position(|field| named(field)));
        self.at = at.unwrap_or(self.at);
        self.refused = Some(why);
    }

    /// Returns the values that differ from their defaults.
    pub(crate) fn chosen(&self) -> Chosen {
        let mut chosen = Chosen::default();
        for at in self.shown() {
            let field = &self.fields[at];
            let text = field.edit.text().trim().to_owned();
            if !text.is_empty() && text != field.meta.default {
                let of_kind = if field.is_setting { &mut chosen.settings } else { &mut chosen.params };
                of_kind.insert(field.meta.name.clone(), text);
            }
        }
        chosen
    }
}

/// Name, default, range, description and kinds of a setting.
type Setting<'a> = (&'a str, &'a str, &'a str, &'a str, &'static [&'static str]);

impl Field {
    fn new(meta: ParameterMeta, value: Option<&String>, is_setting: bool, kinds: &'static [&'static str]) -> Self {
        let words: Vec<String> = meta.range.split(", ").map(str::to_owned).collect();
        let is_word = |word: &String| {
            !word.is_empty() && !word.contains([' ', '–', '=']) && !word.starts_with(|c: char| c.is_ascii_digit())
        };
        let is_choice = words.len() > 1 && words.iter().all(is_word) && words.contains(&meta.default);
        let edit = LineEdit::with_suggestion(value.unwrap_or(&meta.default));
        Self { edit, choices: if is_choice { words } else { Vec::new() }, meta, is_setting, kinds }
    }

    /// Selects the next or the previous choice.
    fn cycle(&mut self, steps: isize) {
        let text = self.edit.text();
        let at = self.choices.iter().position(|choice| *choice == text).unwrap_or(0);
        self.edit = LineEdit::new(&self.choices[wrapped(at, steps, self.choices.len())]);
    }

    /// Selects the next choice that begins with a letter.
    fn choose(&mut self, letter: char) {
        let text = self.edit.text();
        let at = self.choices.iter().position(|choice| *choice == text).unwrap_or(0);
        let next = (1..=self.choices.len()).map(|step| wrapped(at, step.cast_signed(), self.choices.len()));
        let found = next.into_iter().find(|next| self.choices[*next].starts_with(letter));
        if let Some(found) = found {
            self.edit = LineEdit::new(&self.choices[found]);
        }
    }
}

impl Chosen {
    /// Reads the settings.
    ///
    /// # Errors
    /// A line that begins with the name of the first setting that is not valid.
    pub(crate) fn read(&self) -> Result<RunSettings, String> {
        let text = |name: &str| self.settings.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        let time = |name: &'static str| {
            let parse = |text: &str| {
                let duration = rusm_text::parse_duration(text).filter(|time| !time.is_zero());
                duration.ok_or_else(|| format!("{name} of {text:?} is not a time such as 500ms, 5s or 2m"))
            };
            text(name).map(parse).transpose()
        };
        let number = |name: &'static str| {
            let parse = |text: &str| {
                let digits = text.trim_start_matches('#').replace('_', "");
                digits.parse::<u64>().ok().ok_or_else(|| format!("{name} of {text:?} is not a whole number"))
            };
            text(name).map(parse).transpose()
        };
        let rate = text("rate").filter(|text| *text != "closed").map(|text| {
            let (digits, scale) = match text.strip_suffix('k').map(|digits| (digits, 1e3)) {
                Some(scaled) => scaled,
                None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1e6)),
            };
            let rate = digits.replace('_', "").parse::<f64>().ok().map(|rate| rate * scale);
            rate.filter(|rate| rate.is_finite() && *rate > 0.0)
                .ok_or_else(|| format!("rate of {text:?} is not a number such as 5000, 20k or 1.5M"))
        });
        let kind = text("kind").filter(|kind| KINDS.contains(kind));
        let runs = number("runs")?.map(|runs| u32::try_from(runs).unwrap_or(u32::MAX));
        Ok(RunSettings {
            kind: kind.map(str::to_owned),
            profile: text("profile").map(str::to_owned),
            rate_per_sec: rate.transpose()?,
            duration_ms: time("for")?.map(|time| time.as_millis() as u64),
            warm_up_ms: time("warm-up")?.map(|time| time.as_millis() as u64),
            seed: number("seed")?,
            runs,
            grid: text("grid").map(|grid| grid.split_whitespace().map(str::to_owned).collect()).unwrap_or_default(),
            slo_p99_ns: time("p99")?.map(|time| time.as_nanos() as u64),
            baseline: number("baseline")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str, default: &str, range: &str) -> ParameterMeta {
        let [name, default, range] = [name, default, range].map(str::to_owned);
        ParameterMeta { name, default, range, ..ParameterMeta::default() }
    }

    fn dialog(chosen: &Chosen) -> RunDialog {
        let parameters = vec![
            parameter("strategy", "one-for-one", "one-for-one, one-for-all, rest-for-one"),
            parameter("pairs", "auto", "auto, 1–100000"),
        ];
        let scenario = ScenarioMeta { id: "x".to_owned(), parameters, ..ScenarioMeta::default() };
        let profile = |id: &str| ResourceProfileMeta { id: id.to_owned(), ..ResourceProfileMeta::default() };
        RunDialog::new(&scenario, &["light", "balanced", "max"].map(profile), "balanced", chosen)
    }

    fn names(dialog: &RunDialog) -> Vec<String> {
        dialog.fields().iter().map(|field| field.meta.name.clone()).collect()
    }

    fn to(dialog: &mut RunDialog, name: &str) {
        dialog.at = names(dialog).iter().position(|known| known == name).unwrap();
    }

    fn press(dialog: &mut RunDialog, codes: &[KeyCode]) {
        for code in codes {
            dialog.press(Key::plain(*code));
        }
    }

    #[test]
    fn settings_stand_above_the_parameters_and_depend_on_the_kind() {
        let mut dialog = dialog(&Chosen::default());
        let usual = ["kind", "profile", "rate", "for", "warm-up", "seed", "runs", "strategy", "pairs"];
        assert_eq!(names(&dialog), usual);

        press(&mut dialog, &[KeyCode::Right]);

        assert!(names(&dialog).contains(&"grid".to_owned()));
        press(&mut dialog, &[KeyCode::Right]);
        assert!(!names(&dialog).contains(&"rate".to_owned()), "a search chooses the rates");
        press(&mut dialog, &[KeyCode::Left, KeyCode::Left]);
        assert_eq!(names(&dialog), usual);
    }

    #[test]
    fn choices_are_cycled_and_never_typed_wrong() {
        let mut dialog = dialog(&Chosen::default());
        to(&mut dialog, "strategy");

        press(&mut dialog, &[KeyCode::Left]);
        assert_eq!(dialog.chosen().params["strategy"], "rest-for-one");
        press(&mut dialog, &[KeyCode::Char('o'), KeyCode::Char('o')]);

        assert_eq!(dialog.chosen().params["strategy"], "one-for-all");
        to(&mut dialog, "pairs");
        press(&mut dialog, &[KeyCode::Char('8')]);
        assert_eq!(dialog.chosen().params["pairs"], "8");
    }

    #[test]
    fn what_was_chosen_is_there_again_and_defaults_are_left_out() {
        let mut first = dialog(&Chosen::default());
        to(&mut first, "for");
        press(&mut first, &[KeyCode::Char('3'), KeyCode::Char('s')]);
        to(&mut first, "seed");
        press(&mut first, &[KeyCode::Char('1')]);
        let chosen = first.chosen();

        assert_eq!(chosen.settings.iter().collect::<Vec<_>>(), [(&"for".to_owned(), &"3s".to_owned())]);
        assert_eq!(dialog(&chosen).chosen(), chosen);
    }

    #[test]
    fn a_refusal_leads_to_its_field_and_keeps_the_cursor_otherwise() {
        let mut dialog = dialog(&Chosen::default());
        dialog.at = 3;

        dialog.refuse("the node is busy".to_owned());
        assert_eq!(dialog.at, 3);
        dialog.refuse("pairs of \"0\" is not in auto, 1–100000".to_owned());

        assert_eq!(dialog.field().map(|field| field.meta.name.as_str()), Some("pairs"));
    }

    #[test]
    fn settings_are_read_with_their_units() {
        let of = |settings: &[(&str, &str)]| Chosen {
            settings: settings.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
            ..Chosen::default()
        };

        let read = of(&[
            ("rate", "20k"),
            ("for", "1.5s"),
            ("runs", "6"),
            ("p99", "20ms"),
            ("baseline", "#3"),
            ("grid", "a=1,2 b=3"),
        ])
        .read()
        .unwrap();

        assert_eq!((read.rate_per_sec, read.duration_ms, read.runs), (Some(20_000.0), Some(1_500), Some(6)));
        assert_eq!((read.slo_p99_ns, read.baseline, read.grid.len()), (Some(20_000_000), Some(3), 2));
        assert_eq!(of(&[]).read(), Ok(RunSettings::default()));
        assert_eq!(
            of(&[("rate", "fast")]).read().unwrap_err(),
            "rate of \"fast\" is not a number such as 5000, 20k or 1.5M"
        );
        assert_eq!(of(&[("for", "0s")]).read().unwrap_err(), "for of \"0s\" is not a time such as 500ms, 5s or 2m");
        assert_eq!(of(&[("seed", "x")]).read().unwrap_err(), "seed of \"x\" is not a whole number");
    }
}
