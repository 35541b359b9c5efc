//! Tests of the table of key bindings.

use super::*;
use crate::model::input::key::Key;
use crate::model::input::keymap::KeyMap;
use crate::model::tab::Tab;

#[test]
fn no_key_stands_twice_in_a_context() {
    for context in Context::ALL {
        let mut seen = Vec::new();
        for key in bindings(context).flat_map(|binding| binding.keys) {
            assert!(!seen.contains(key), "{} twice in {context:?}", key.text());
            seen.push(*key);
        }
    }
}

#[test]
fn every_context_has_a_binding_and_every_binding_a_help_text() {
    for context in Context::ALL {
        assert!(bindings(context).count() > 0, "{context:?}");
    }
    assert!(BINDINGS.iter().all(|binding| !binding.help.is_empty() && !binding.keys.is_empty()));
}

#[test]
fn a_context_shadows_the_global_table() {
    let contexts = [Context::Lost, Context::Node, Context::Global];

    assert_eq!(KeyMap::default().action(&contexts, Key::char('r')), Some(Action::Retry));
    assert_eq!(KeyMap::default().action(&contexts[1..], Key::char('r')), None, "a run starts on Bench only");
    assert_eq!(KeyMap::default().action(&contexts, Key::char('q')), Some(Action::Quit));
}

#[test]
fn every_view_has_its_key() {
    for &tab in Tab::ALL {
        assert_eq!(KeyMap::default().action(&[Context::Global], Key::char(tab.key())), Some(Action::Show(tab)));
    }
}
