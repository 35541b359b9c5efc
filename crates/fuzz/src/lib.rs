//! Fuzzing on the stable toolchain: ordinary tests that mutate valid inputs by small changes.
//!
//! ```text
//!   seeds ──▶ pick one ──▶ 1 to 8 changes ──▶ check(input)      a panic in the check is a finding
//! ```
//!
//! [`Fuzz::run`] tries a few thousand inputs, in about a second, as part of `cargo test`. `RUSM_FUZZ_SECONDS` makes
//! each target run for that many seconds instead, and `RUSM_FUZZ_SEED` sets the first seed. For a finding it prints the
//! seed and the case number, and writes the input to a file.
//!
//! ```
//! rusm_fuzz::Fuzz::new("numbers").seed("12 34").words(&["0", "-1"]).run(|input| {
//!     let text = String::from_utf8_lossy(input);
//!     drop(text.split(' ').map(str::parse::<u64>).collect::<Vec<_>>());
//! });
//! ```

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Number of inputs tried when `RUSM_FUZZ_SECONDS` is not set.
const CASES: u64 = 4_000;
/// Maximum length of an input, in bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// Numbers that parsers often handle wrongly.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775808",
    "18446744073709551616",
    "1e999",
    "NaN",
    "0.1",
];

/// A fuzz target: a name, valid inputs, and words of the input's language.
#[derive(Clone, Debug)]
pub struct Fuzz {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    words: Vec<String>,
    cases: u64,
}

impl Fuzz {
    /// Creates a target without seeds. The first input is empty.
    pub fn new(name: &'static str) -> Self {
        Self { name, seeds: vec![Vec::new()], words: NUMBERS.map(str::to_owned).to_vec(), cases: CASES }
    }

    /// Adds a valid input.
    #[must_use]
    pub fn seed(mut self, input: impl AsRef<[u8]>) -> Self {
        self.seeds.push(input.as_ref().to_vec());
        self
    }

    /// Adds all files of a folder and its subfolders as valid inputs.
    ///
    /// # Panics
    /// If the folder contains no readable file.
    #[must_use]
    pub fn seeds_of(mut self, folder: impl AsRef<Path>) -> Self {
        let before = self.seeds.len();
        let mut folders = vec![folder.as_ref().to_owned()];
        while let Some(folder) = folders.pop() {
            let mut entries: Vec<PathBuf> =
                std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            entries.sort();
            for path in entries {
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(input) = std::fs::read(&path) {
                    self.seeds.push(input);
                }
            }
        }
        assert!(self.seeds.len() > before, "no seeds in {}", folder.as_ref().display());
        self
    }

    /// Adds words that mutations insert into inputs.
    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self
    }

    /// Sets the number of inputs tried when `RUSM_FUZZ_SECONDS` is not set. Lower it for a slow check.
    #[must_use]
    pub const fn cases(mut self, cases: u64) -> Self {
        self.cases = cases;
        self
    }

    /// Checks the seeds, then mutated inputs.
    ///
    /// # Panics
    /// Propagates the panic of the check.
    pub fn run(&self, mut check: impl FnMut(&[u8])) {
        let seconds = number_of("RUSM_FUZZ_SECONDS").map(Duration::from_secs);
        let seed = number_of("RUSM_FUZZ_SEED").unwrap_or(1);
        let started = Instant::now();
        let mut case = 0;
        for input in &self.seeds {
            self.check(input, seed, case, &mut check);
        }
        let is_over = |case| seconds.map_or(case == self.cases, |seconds| started.elapsed() >= seconds);
        while !is_over(case) {
            case += 1;
            let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ case);
            self.check(&self.input(&mut rng), seed, case, &mut check);
        }
    }

    fn check(&self, input: &[u8], seed: u64, case: u64, check: &mut impl FnMut(&[u8])) {
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(input))) else { return };
        let path = env::temp_dir().join(format!("rusm-fuzz-{}-{seed}-{case}", self.name));
        let place = match std::fs::write(&path, input) {
            Ok(()) => path.display().to_string(),
            Err(error) => format!("nowhere: {error}"),
        };
        let shown = String::from_utf8_lossy(&input[..input.len().min(400)]).into_owned();
        eprintln!("{}: seed {seed}, case {case}, input in {place}: {shown:?}", self.name);
        resume_unwind(panic);
    }

    /// Returns a seed with 1 to 8 changes.
    fn input(&self, rng: &mut Rng) -> Vec<u8> {
        let mut input = rng.pick(&self.seeds).clone();
        for _ in 0..=rng.below(8) {
            self.change(&mut input, rng);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        let at = rng.below(input.len() + 1);
        let end = at + rng.below((input.len() - at + 1).min(64));
        match rng.below(10) {
            0 if at < input.len() => input[at] ^= 1 << rng.below(8),
            1 if at < input.len() => input[at] = rng.below(256) as u8,
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => {
                let piece = input[at..end].to_vec();
                for _ in 0..=rng.below(4) {
                    input.splice(at..at, piece.iter().copied());
                }
            }
            5 => drop(input.splice(at..at, (0..rng.below(16)).map(|_| rng.below(256) as u8))),
            6 => {
                let other = rng.pick(&self.seeds);
                let from = rng.below(other.len() + 1);
                let to = from + rng.below((other.len() - from + 1).min(512));
                input.splice(at..end, other[from..to].iter().copied());
            }
            7 => {
                // Replace one number by another.
                let from = (at..input.len()).find(|at| input[*at].is_ascii_digit()).unwrap_or(at);
                let to = (from..input.len()).find(|at| !input[*at].is_ascii_digit()).unwrap_or(input.len());
                input.splice(from..to, rng.pick(&NUMBERS).bytes());
            }
            _ => drop(input.splice(at..end, rng.pick(&self.words).bytes())),
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

/// Returns the next number of a `SplitMix64` generator with this state.
pub const fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Random numbers for tests (`SplitMix64`): every seed, however close to another one, gives an unrelated sequence.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator; the seed determines its numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end.max(1) as u64) as usize
    }

    /// Returns one of several values.
    ///
    /// # Panics
    /// If `all` is empty.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_near_the_seeds_and_the_same_again() {
        let fuzz = Fuzz::new("near").seed("{\"type\":\"run\",\"id\":7}").words(&["stop"]).cases(2_000);
        let all = || {
            let mut seen = Vec::new();
            fuzz.run(|input| seen.push(input.to_vec()));
            seen
        };
        let seen = all();

        assert_eq!(seen, all());
        let near = seen.iter().filter(|input| input.windows(5).any(|part| part == b"\"type")).count();
        assert!((200..1_900).contains(&near), "{near}");
        assert!(seen.iter().any(|input| input.windows(4).any(|part| part == b"stop")));
    }

    #[test]
    #[should_panic(expected = "found")]
    fn a_panic_of_the_check_is_a_finding() {
        Fuzz::new("finding").seed("abc").run(|input| assert!(!input.starts_with(b"b"), "found"));
    }
}
