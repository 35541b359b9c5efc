//! The key bindings: one table for dispatch, the footer, the `?` overlay, the README and their tests.
//!
//! A binding of a context shadows the global one. Contexts with a text field never fall through to the global bindings,
//! so that letters can be typed there.

mod binding;
mod table;

pub use self::binding::{Action, Binding, Context};
pub use self::table::BINDINGS;

/// Returns the bindings of a context.
pub fn bindings(context: Context) -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(move |binding| binding.context == context)
}

/// Formats the table as Markdown, for the README.
pub fn markdown() -> String {
    let mut out = String::from("| Where | Keys | Action |\n|---|---|---|\n");
    for context in Context::ALL {
        for binding in bindings(context) {
            let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{}`", key.text())).collect();
            let row = format!("| {} | {} | {} |\n", context.title(), keys.join(" "), binding.help);
            out.push_str(&row);
        }
    }
    out
}

#[cfg(test)]
mod tests;
