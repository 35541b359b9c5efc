//! Formats the result of a long run for people.

use std::fmt::{self, Display};

use super::{Soak, SoakVerdict, is_kept};
use crate::report::numbers::{bytes, grouped};
use crate::report::text::NAME_WIDTH;

impl Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.run.write_figures(f)?;
        writeln!(f, "\n  growth after the plateau was reached")?;
        writeln!(f, "  {:<12} {:>16} {:>14} {:>30} {:>8} {:>12}", "", "plateau", "slope/s", "95 %", "p", "in 4 h")?;
        for growth in &self.growths {
            writeln!(
                f,
                "  {:<12} {:>16} {:>14.3} {:>30} {:>8.4} {:>10.2} %{}",
                growth.name,
                grouped(growth.plateau as u64),
                growth.slope_per_s,
                format!("{:.3} to {:.3}", growth.slope_low_per_s, growth.slope_high_per_s),
                growth.trend_p,
                growth.growth_4h * 100.0,
                if growth.grows { "  grows" } else { "" }
            )?;
        }
        if self.growths.is_empty() {
            writeln!(f, "  {} samples are too few to judge: at least 30 are needed", self.samples.len())?;
        }
        writeln!(
            f,
            "  live bytes outside the run: {} before, {} after",
            bytes(self.live_bytes_before),
            bytes(self.live_bytes_after)
        )?;
        writeln!(f)?;
        let mut line = |name: &str, value: String| writeln!(f, "  {name:NAME_WIDTH$}{value}");
        for (name, value) in self.origin.machine.lines() {
            line(name, value)?;
        }
        line("verdict", self.verdict_line())
    }
}

impl Soak {
    /// Returns the verdict in one line.
    pub(crate) fn verdict_line(&self) -> String {
        match (self.verdict, &self.run.error) {
            (SoakVerdict::Level, _) => "level: nothing grew".to_owned(),
            (SoakVerdict::Growing, _) => format!("growing: {}", self.grown()),
            (SoakVerdict::TooShort, _) => "too short to tell".to_owned(),
            (SoakVerdict::Failed, Some(error)) => format!("failed: {error}"),
            (SoakVerdict::Failed, None) => "failed: nothing was done".to_owned(),
        }
    }

    /// Returns what grew, and what was not freed.
    fn grown(&self) -> String {
        let mut grown: Vec<String> =
            self.growths.iter().filter(|growth| growth.grows).map(|growth| growth.name.clone()).collect();
        if is_kept(self.live_bytes_before, self.live_bytes_after) {
            grown.push("memory that was not freed".to_owned());
        }
        grown.join(", ")
    }
}
