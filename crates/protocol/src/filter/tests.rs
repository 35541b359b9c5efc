use proptest::prelude::*;

use super::*;

/// A process with fixed values.
struct Sample;

impl FilterSubject for Sample {
    fn number(&self, field: FilterField) -> u64 {
        match field {
            FilterField::Mailbox => 12,
            FilterField::MemoryBytes => 65_536,
            FilterField::AgeMs => 2_500,
            FilterField::BusyNs => 5_400_000,
            FilterField::RedsPerSec => 1_500,
            FilterField::BusyMilliPct => 42_500,
            FilterField::Links => 3,
            FilterField::Parent => 7,
            _ => 0,
        }
    }

    fn any_text(&self, field: FilterField, matches: &mut dyn FnMut(&str) -> bool) -> bool {
        match field {
            FilterField::Name => ["kv_Writer", "label 2"].into_iter().any(matches),
            FilterField::Module => matches("shop/cart"),
            FilterField::Kind => matches("wasm"),
            _ => false,
        }
    }

    fn is_in(&self, state: &str) -> bool {
        ["waiting", "wait"].contains(&state)
    }

    fn pid(&self) -> (u32, u32) {
        (17, 3)
    }
}

#[test]
fn what_matches() {
    let cases = [
        "",
        "writer",
        "LABEL",
        "label 2",
        "<0.17.3>",
        "<0.17>",
        "17",
        "!other",
        "not <0.17.4>",
        "name=kv*",
        "name=kv_Writer",
        "name!=kv",
        "name~WRITER",
        "name ~ x or name ~ w",
        "name~k*r",
        "name!~zz",
        "label=\"label 2\"",
        "module=shop/*",
        "module~CART",
        "kind=wasm",
        "kind!=native",
        "state=waiting",
        "state!=running",
        "pid=17",
        "pid=<0.17.3>",
        "pid!=<0.17.4>",
        "parent=7",
        "parent<<0.9.1>",
        "mailq=12",
        "mailq>11",
        "mailq<=12",
        "mem=64KiB",
        "mem<65.537kB",
        "mem>=65536B",
        "mem > 0.06MB",
        "mem<1MiB",
        "age>2s",
        "age<2.6",
        "age<=2500ms",
        "busy>5ms",
        "busy<0.01",
        "reds/s>1k",
        "reds_per_sec<1.6k",
        "busy%>42",
        "busy%<43%",
        "links=3",
        "monitors=0",
        "mailq>0 and (mem>1GB or age>1s)",
        "!(mailq=0 or mem=0)",
        "Mailq>1 AND NOT state=io",
        "profile!=x",
        "linear=0",
    ];
    for text in cases {
        assert!(ProcessFilter::parse(text).unwrap().matches(&Sample), "{text}");
    }
    for text in [
        "other",
        "!writer",
        "<0.17.4>",
        "18",
        "name=kv",
        "name=KV*",
        "name~zz",
        "name=\"kv*\"",
        "state=io",
        "mailq!=12",
        "mem>64KiB",
        "age<2s",
        "busy%>43",
        "links>3",
        "parent>7",
        "kind=native",
        "writer and mailq>12",
        "zz or yy",
    ] {
        assert!(!ProcessFilter::parse(text).unwrap().matches(&Sample), "{text}");
    }
}

#[test]
fn errors_name_the_part_that_is_wrong_and_where_it_is() {
    let error = |text: &str| ProcessFilter::parse(text).map_err(|error| (error.to_string(), error.at)).unwrap_err();

    let (message, at) = error("x and colour=red");
    assert!(message.starts_with("unknown filter field \"colour\": expected one of name, module"), "{message}");
    assert_eq!(at, 6..12);
    assert_eq!(error("mailqq>1"), ("unknown filter field \"mailqq\": did you mean \"mailq\"?".to_owned(), 0..6));
    assert_eq!(error("state=waitng"), ("unknown state \"waitng\": did you mean \"waiting\"?".to_owned(), 6..12));
    assert_eq!(
        error("mailq>many"),
        ("filter value \"many\" is not a number: for example 12, 12k, 1.5M".to_owned(), 6..10)
    );
    assert_eq!(error("mem>1XB").0, "filter value \"1XB\" is not a size: for example 4096, 64KiB, 1.5MB");
    assert_eq!(error("age>soon").0, "filter value \"soon\" is not a duration: for example 250ms, 10s, 5m");
    assert_eq!(error("state > run"), ("filter field \"state\" supports only = and !=".to_owned(), 5..8));
    assert_eq!(error("name>x").0, "filter field \"name\" supports only =, !=, ~ and !~");
    assert_eq!(error("mem~1").0, "filter field \"mem\" supports only =, !=, <, <=, > and >=");
    assert_eq!(error("pid=x").0, "filter value \"x\" is not a pid such as <0.17.1>");
    let field_alone = "\"mem\" is a field: compare it, for example mem=4096, or quote it to search for it";
    assert_eq!(error("x or mem"), (field_alone.to_owned(), 5..8));
    assert!(ProcessFilter::parse("\"mem\" and memory").is_ok());
    assert!(error(&"x".repeat(2000)).0.contains("over the limit of 1024"));
    for text in ["mem>inf", "mem>nan", "mailq>-1", "mailq>1e999", "age>-1s", "busy%>x"] {
        assert!(ProcessFilter::parse(text).is_err(), "{text}");
    }
}

#[test]
fn rates_are_found_wherever_they_are() {
    let rates = |text: &str| ProcessFilter::parse(text).unwrap().rates();

    assert_eq!(rates("mailq>1"), []);
    assert_eq!(
        rates("!(reds/s>1 or x) and reds/s<9 and busy%>1"),
        [FilterField::RedsPerSec, FilterField::BusyMilliPct]
    );
}

#[test]
fn every_field_has_its_own_names() {
    let mut words: Vec<&str> = FILTER_FIELDS.iter().flat_map(|info| info.words).copied().collect();
    let count = words.len();
    words.sort_unstable();
    words.dedup();

    assert_eq!(words.len(), count);
    for info in &FILTER_FIELDS {
        let value = info.values.examples().first().unwrap_or(&"x");
        assert!(ProcessFilter::parse(&format!("{}={value}", info.words[0])).is_ok(), "{}", info.words[0]);
    }
}

#[test]
fn fuzz_filters() {
    let words = [
        "name=",
        "kv*",
        " and ",
        " or ",
        "!",
        "not ",
        "(",
        ")",
        "mailq>",
        "mem<=",
        "state!=waiting",
        "age",
        "<0.1.1>",
        "~",
        "\"",
        "\\",
        "ms",
        "kB",
        "=",
        "reds/s",
    ];
    let target = rusm_fuzz::Fuzz::new("filter").words(&words);
    let target = target.seed("name=kv* and mailq>10 and state!=waiting").seed("pid=<0.17.1> and age>5s or !busy<1ms");
    target.seed("module=*shop* and (mem>=64kB or reds/s > 1k) and \"a b\"").run(|input| {
        let text = String::from_utf8_lossy(input);
        match ProcessFilter::parse(&text) {
            Ok(filter) => _ = filter.matches(&Sample),
            Err(error) => {
                let line = error.to_string();
                assert!(line.chars().all(|character| !character.is_control()), "{line:?}");
                assert!(text.get(error.at.clone()).is_some(), "{text:?} {error:?}");
            }
        }
    });
}

proptest! {
    /// A negation matches exactly what the filter does not.
    #[test]
    fn a_negation_is_the_opposite(at in 0..6_usize, other in 0..6_usize) {
        let parts = ["name=kv*", "mailq>20", "state=io", "age>1s", "<0.17.3>", "reds/s<1"];
        for word in ["and", "or"] {
            let text = format!("{} {word} {}", parts[at], parts[other]);
            let filter = ProcessFilter::parse(&text).unwrap();
            let negated = ProcessFilter::parse(&format!("!({text})")).unwrap();
            prop_assert_ne!(filter.matches(&Sample), negated.matches(&Sample));
        }
    }
}
