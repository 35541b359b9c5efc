use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> String {
    Query::parse(text).unwrap().map_or_else(String::new, |query| query.to_string())
}

fn error(text: &str) -> (String, Range<usize>) {
    let error = Query::parse(text).unwrap_err();
    (error.message, error.at)
}

#[test]
fn the_grammar() {
    let cases = [
        ("", ""),
        ("  ", ""),
        ("kv", "kv"),
        ("kv  writer", "kv  writer"),
        ("name=kv*", "name=kv*"),
        ("name = kv*", "name=kv*"),
        ("name~x", "name~x"),
        ("name !~ x", "name!~x"),
        ("mem >= 64KiB", "mem>=64KiB"),
        ("a=1 and b=2 and c=3", "a=1 and b=2 and c=3"),
        ("(a=1 and b=2) AND c=3", "a=1 and b=2 and c=3"),
        ("a=1 && b=2 || c=3", "a=1 and b=2 or c=3"),
        ("a=1 & b=2 | c=3", "a=1 and b=2 or c=3"),
        ("a=1 and (b=2 or c=3)", "a=1 and (b=2 or c=3)"),
        ("a=1 or b=2 and c=3", "a=1 or b=2 and c=3"),
        ("!x", "!x"),
        ("! x", "!x"),
        ("not name=kv", "!name=kv"),
        ("!!x", "!!x"),
        ("!(a=1 or x)", "!(a=1 or x)"),
        ("((x))", "x"),
        ("\"and\"", "\"and\""),
        ("'a \"b'", "\"a \\\"b\""),
        ("name=\"my worker\" and x", "name=\"my worker\" and x"),
        ("<0.17.3>", "<0.17.3>"),
        ("!<0.17.3>", "!<0.17.3>"),
        ("x and <0.17.3>", "x and <0.17.3>"),
        ("pid=<0.17.3> or pid=17", "pid=<0.17.3> or pid=17"),
        ("parent<<0.5.1>", "parent<<0.5.1>"),
        ("mailq<0.5 and mailq>0", "mailq<0.5 and mailq>0"),
        ("age < 2s", "age<2s"),
        ("reds/s>1k and busy%>50", "reds/s>1k and busy%>50"),
        ("android or order", "android or order"),
        ("module=shop/cart@1.0:x", "module=shop/cart@1.0:x"),
    ];
    for (text, canonical) in cases {
        assert_eq!(shown(text), canonical, "{text}");
    }
}

#[test]
fn an_error_points_at_the_word_that_is_wrong() {
    let cases = [
        ("mem>", "a value is missing after mem>", 4..4),
        ("mem> and x", "a value is missing after mem>", 4..4),
        ("mem>>1", "a value is missing after mem>; quote a value that contains \">\"", 4..5),
        (">1MB", "a field is missing before >, for example mem>", 0..1),
        ("a=1 and", "a condition is missing after \"and\"", 7..7),
        ("!", "a condition is missing after \"!\"", 1..1),
        ("and x", "a condition is missing before \"and\": to search for it, quote it", 0..3),
        ("a=1 or or x", "a condition is missing before \"or\": to search for it, quote it", 7..9),
        ("(a=1", "this ( is not closed: add a )", 0..1),
        ("a=1)", "this ) closes nothing: remove it, or add a (", 3..4),
        ("()", "a condition is missing before this )", 1..2),
        ("a=\"x", "this \" is not closed", 2..4),
        ("\"a\"=1", "a field is not quoted: remove the quotes", 0..3),
    ];
    for (text, message, at) in cases {
        assert_eq!(error(text), (message.to_owned(), at), "{text}");
    }
    for (text, at) in
        [("a=1 b=2", 4..5), ("a=x y", 4..5), ("x !y", 2..3), ("(a=1 b)", 5..6), ("x \"y\"", 2..5), ("x name=1", 2..6)]
    {
        let (message, found) = error(text);
        assert!(message.starts_with("\"and\" or \"or\" is missing before"), "{text}: {message}");
        assert_eq!(found, at, "{text}");
    }
    assert!(error(&"x".repeat(2000)).0.contains("over the limit of 1024"));
    assert!(error(&"(".repeat(200)).0.contains("more than 32 levels"));
    assert!(error(&"!".repeat(200)).0.contains("more than 32 levels"));
    assert!(error(&["x"; 100].join(" or ")).0.contains("more than 64 conditions"));
}

#[test]
fn the_position_of_an_error_counts_characters() {
    let text = "name=ä and mem>";

    assert_eq!(Query::parse(text).unwrap_err().characters(text), (15, 0));
}

fn word() -> impl Strategy<Value = QueryWord> {
    let plain = "[a-z][a-z0-9*._/%-]{0,8}"
        .prop_filter("a word of the grammar", |text| !["and", "or", "not"].contains(&text.as_str()));
    prop_oneof![
        plain.prop_map(|text| QueryWord { text, is_quoted: false, at: 0..0 }),
        "[ -~äöü]{0,8}".prop_map(|text| QueryWord { text, is_quoted: true, at: 0..0 }),
        (0..99_u32, 0..9_u32).prop_map(|(slot, generation)| QueryWord {
            text: format!("<0.{slot}.{generation}>"),
            is_quoted: false,
            at: 0..0
        }),
    ]
}

fn queries() -> impl Strategy<Value = Query> {
    let condition = ("[a-z]{3,6}", 0..8_usize, word()).prop_filter_map("a field", |(field, at, value)| {
        let field = QueryWord { text: field, is_quoted: false, at: 0..0 };
        let is_field = !["and", "not"].contains(&field.text.as_str());
        is_field.then(|| Query::Condition(QueryCondition { field, comparison: Comparison::ALL[at], value }))
    });
    let leaf = prop_oneof![condition, word().prop_map(Query::Text)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let parts = |inner: BoxedStrategy<Query>| proptest::collection::vec(inner, 2..4);
        prop_oneof![
            parts(inner.clone().boxed()).prop_map(|parts| Query::And(flat(parts, |part| match part {
                Query::And(inner) => Ok(inner),
                other => Err(other),
            }))),
            parts(inner.clone().boxed()).prop_map(|parts| Query::Or(flat(parts, |part| match part {
                Query::Or(inner) => Ok(inner),
                other => Err(other),
            }))),
            inner.prop_map(|part| Query::Not(Box::new(part))),
        ]
    })
}

proptest! {
    #[test]
    fn a_query_that_is_shown_parses_to_itself(query in queries()) {
        let text = query.to_string();

        prop_assert_eq!(Query::parse(&text).unwrap(), Some(query), "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_an_error_is_inside(text in "\\PC{0,40}") {
        if let Err(error) = Query::parse(&text) {
            prop_assert!(text.get(error.at.clone()).is_some(), "{text:?}: {error:?}");
        }
    }
}
