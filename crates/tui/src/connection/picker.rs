//! Asks which node to attach to, if several run here and none was named.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::cli::options::Source;
use crate::connection::{Discovery, Target};
use crate::exit::Error;

/// Returns the source, with the node that the user has chosen if there are several. Without a terminal the source stays,
/// and attaching explains what is missing.
///
/// # Errors
/// If the answer is not one of the nodes.
pub(crate) async fn pick(source: &Source) -> Result<Source, Error> {
    if *source != Source::Node(Target::Discover) || !io::stdin().is_terminal() {
        return Ok(source.clone());
    }
    let names = Discovery::from_env().running().await?;
    if names.len() < 2 {
        return Ok(source.clone());
    }
    let question = question(&names);
    let ask = move || {
        let mut err = io::stderr().lock();
        err.write_all(question.as_bytes()).and_then(|()| err.flush())?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map(|_| line)
    };
    // A blocking read: nothing else runs before the user has answered.
    let line = ask().map_err(Error::Terminal)?;
    chosen(&names, &line).map(|name| Source::Node(Target::Named(name)))
}

/// Returns the list of the nodes and the question.
fn question(names: &[String]) -> String {
    let line = |(at, name): (usize, &String)| format!("{:>3}  {}\n", at + 1, rusm_text::escaped(name));
    let list: String = names.iter().enumerate().map(line).collect();
    format!("several nodes are running here:\n{list}number or name [1]: ")
}

/// Returns the node of an answer: a number, a name, or the first one for an empty line.
fn chosen(names: &[String], answer: &str) -> Result<String, Error> {
    let answer = answer.trim();
    let at = if answer.is_empty() { Some(1) } else { answer.parse::<usize>().ok() };
    let numbered = at.and_then(|at| names.get(at.checked_sub(1)?));
    let found = names.iter().find(|name| *name == answer).or(numbered);
    found.cloned().ok_or_else(|| {
        let (answer, names) = (rusm_text::escaped(answer).within(64).to_string(), names.join(", "));
        Error::Usage(format!("{answer:?} is neither a number of the list nor one of {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_number_a_name_or_nothing() {
        let names = ["kv", "web", "3"].map(str::to_owned);

        let said = |answer: &str| chosen(&names, answer).map_err(|error| error.to_string());

        assert_eq!(question(&names[..2]), "several nodes are running here:\n  1  kv\n  2  web\nnumber or name [1]: ");
        assert_eq!(said("2\n").unwrap(), "web");
        assert_eq!(said("\n").unwrap(), "kv");
        assert_eq!(said("web").unwrap(), "web");
        assert_eq!(said("3").unwrap(), "3");
        assert_eq!(said("0").unwrap_err(), "\"0\" is neither a number of the list nor one of kv, web, 3");
    }
}
