//! Names of processes and of their kinds, as the CPU view and the tree send them.

use rusm_protocol::CpuRow;

use super::text::cut;
use crate::view::cpu::group::GroupId;
use rusm_runtime::observe::{self, ProcessKind};
use rusm_runtime::{Handle, NAME_MAX_BYTES, Pid};

/// Longest name of a type that is sent.
const TYPE_MAX_BYTES: usize = 96;

/// Rounds a share or a rate for the wire.
pub(crate) fn round(value: f64) -> f64 {
    super::round(value)
}

/// Returns a row with the name of a group.
pub(crate) fn named(runtime: &Handle, id: &GroupId) -> CpuRow {
    let row = |name: String, kind: &str| CpuRow { name, kind: kind.to_owned(), ..CpuRow::default() };
    match id {
        GroupId::Kind(ProcessKind::Other) => row("other kinds".to_owned(), "other"),
        GroupId::Kind(kind) => row(kind_name(kind), kind_word(kind)),
        GroupId::Scheduler(number) => row(format!("s{number}"), "scheduler"),
        GroupId::Parent(Pid::NONE) => row("outside, or an ended parent".to_owned(), "outside"),
        GroupId::Parent(pid) => {
            let name = parent(runtime, *pid).unwrap_or_else(|| pid.to_string());
            CpuRow { pid: Some(pid.to_string()), ..row(name, "process") }
        }
    }
}

/// Returns the name of a parent: its registered name, its kind, or its pid if it has ended.
pub(crate) fn parent(runtime: &Handle, pid: Pid) -> Option<String> {
    if pid == Pid::NONE {
        return None;
    }
    let Some(seen) = observe::process_ref(runtime, pid) else { return Some(pid.to_string()) };
    let (name, _) = observe::names(&seen);
    Some(name.map_or_else(|| kind_name(&observe::kind(&seen)), |name| cut(&name, NAME_MAX_BYTES)))
}

const fn kind_word(kind: &ProcessKind) -> &'static str {
    match kind {
        ProcessKind::Label(_) => "label",
        ProcessKind::Module(_) => "module",
        ProcessKind::Future(_) => "type",
        ProcessKind::Other => "other",
    }
}

fn kind_name(kind: &ProcessKind) -> String {
    match kind {
        ProcessKind::Label(name) | ProcessKind::Module(name) => cut(name, NAME_MAX_BYTES),
        ProcessKind::Future(name) => cut(&short_type(name), TYPE_MAX_BYTES),
        ProcessKind::Other => "other kinds".to_owned(),
    }
}

/// Shortens the name of a future's type: each path to its last two parts, without closures.
fn short_type(name: &str) -> String {
    let mut out = String::new();
    let mut path = String::new();
    let end_path = |path: &mut String, out: &mut String| {
        let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
        if path.starts_with("::") {
            out.push_str("::");
        }
        out.push_str(&parts[parts.len().saturating_sub(2)..].join("::"));
        path.clear();
    };
    for character in name.replace("::{{closure}}", "").chars() {
        if character.is_alphanumeric() || matches!(character, '_' | ':') {
            path.push(character);
        } else {
            end_path(&mut path, &mut out);
            out.push(character);
        }
    }
    end_path(&mut path, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_type_is_short_and_keeps_what_tells_types_apart() {
        for (long, short) in [
            ("rusm_bench::scenarios::storms::spawn_storm::child::{{closure}}", "spawn_storm::child"),
            ("app::{{closure}}::{{closure}}", "app"),
            (
                "core::pin::Pin<alloc::boxed::Box<dyn core::future::Future<Output = ()>>>",
                "pin::Pin<boxed::Box<dyn future::Future<Output = ()>>>",
            ),
            ("<app::orders::Courier as app::Actor>::run::{{closure}}", "<orders::Courier as app::Actor>::run"),
            ("app::Store<u8>::commit", "app::Store<u8>::commit"),
            ("", ""),
        ] {
            assert_eq!(short_type(long), short);
        }
    }
}
