//! Import cycles among the files of a crate, and folders with too many files.
//!
//! ```text
//!   file ──▶ its paths: `use` declarations, `crate::…`, `super::…`, modules named directly
//!              └──▶ the file that defines the last item (re-exports are followed) ──▶ graph ──▶ cycles
//! ```
//!
//! Tests are left out. A file that only declares modules and re-exports their items imports nothing and is not
//! imported: its users import the files behind it.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{Source, code, is_word};

/// Maximum number of re-exports between a path and the item.
const REEXPORTS_MAX: usize = 6;

/// The maximum number of files in an import cycle of a crate.
#[derive(Debug)]
pub(crate) struct CycleLimit {
    pub(crate) krate: &'static str,
    pub(crate) files: usize,
}

/// A folder that has more entries than others may have.
#[derive(Debug)]
pub(crate) struct WideFolder {
    pub(crate) path: &'static str,
    pub(crate) entries: usize,
}

/// Returns the import cycles with more files than the limit of their crate, which is 0 by default.
pub(crate) fn long_cycles(sources: &[Source], limits: &[CycleLimit]) -> Vec<String> {
    let mut found = Vec::new();
    for krate in sources.iter().filter_map(|source| source.path.split('/').next()).collect::<BTreeSet<_>>() {
        let files_max = limits.iter().find(|limit| limit.krate == krate).map_or(0, |limit| limit.files);
        for cycle in Graph::of(sources, krate).cycles().into_iter().filter(|cycle| cycle.len() > files_max) {
            let (count, files) = (cycle.len(), cycle.join(", "));
            found.push(format!("{krate} has an import cycle of {count} files, over {files_max}: {files}"));
        }
    }
    found
}

/// Returns the folders with more entries than allowed, and exceptions that are higher than necessary. A folder and the
/// file of the same name count as one entry; the root of a crate does not count.
pub(crate) fn wide_folders(sources: &[Source], entries_max: usize, exceptions: &[WideFolder]) -> Vec<String> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for path in sources.iter().map(|source| source.path.as_str()).filter(|path| path.contains("/src/")) {
        let roots = path.match_indices('/').map(|(end, _)| path.split_at(end));
        for (folder, rest) in roots.filter(|(folder, _)| folder.contains("/src")) {
            let entry = rest[1..].split('/').next().unwrap_or_default().trim_end_matches(".rs");
            if !(folder.ends_with("/src") && ["lib", "main"].contains(&entry)) {
                folders.entry(folder).or_default().insert(entry);
            }
        }
    }
    let limit = |folder: &str| exceptions.iter().find(|wide| wide.path == folder).map(|wide| wide.entries);
    let too_wide = folders.iter().map(|(folder, entries)| (*folder, entries.len())).filter_map(|(folder, count)| {
        let allowed = limit(folder).unwrap_or(entries_max);
        (count > allowed).then(|| format!("{folder} has {count} entries, over {allowed}"))
    });
    let too_lax = exceptions.iter().filter_map(|wide| {
        let count = folders.get(wide.path).map_or(0, BTreeSet::len);
        (count < wide.entries)
            .then(|| format!("{} has {count} entries: lower its exception of {}", wide.path, wide.entries))
    });
    too_wide.chain(too_lax).collect()
}

/// Path of a module below the root of its crate.
type Module = Vec<String>;

/// A name that a `use` declaration brings into a file.
#[derive(Debug)]
struct Import {
    name: String,
    path: String,
    is_public: bool,
}

#[derive(Debug)]
struct File {
    path: String,
    imports: Vec<Import>,
    /// Paths outside of `use` declarations.
    inline: Vec<String>,
    /// True if the file only declares modules and re-exports their items.
    is_facade: bool,
}

/// The imports between the files of a crate.
#[derive(Debug)]
struct Graph {
    files: BTreeMap<Module, File>,
    edges: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of(sources: &[Source], krate: &str) -> Self {
        let root = format!("{krate}/src/");
        let files = sources.iter().filter_map(|source| {
            let path = source.path.strip_prefix(&root)?.strip_suffix(".rs")?;
            let module: Module = path.split('/').filter(|name| *name != "lib").map(ToOwned::to_owned).collect();
            (!module.iter().any(|name| name == "tests")).then(|| (module, File::of(source)))
        });
        let mut graph = Self { files: files.collect(), edges: BTreeMap::new() };
        graph.edges = graph.files.keys().map(|module| (module.clone(), graph.imported(module))).collect();
        graph
    }

    /// Returns the modules that a file imports.
    fn imported(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.files[module];
        if file.is_facade {
            return BTreeSet::new();
        }
        let inline = file.inline.iter().map(|path| {
            let (first, rest) = path.split_once("::").unwrap_or((path, ""));
            // A name from a `use` declaration may stand for a module.
            let import = file.imports.iter().find(|import| import.name == first);
            import.map_or_else(|| path.clone(), |import| format!("{}::{rest}", import.path))
        });
        let paths = file.imports.iter().map(|import| import.path.clone()).chain(inline);
        paths
            .filter_map(|path| self.resolve(module, &path, 0))
            .filter(|target| target != module && self.files.get(target).is_some_and(|file| !file.is_facade))
            .collect()
    }

    /// Returns the module that defines the item of a path in `module`; `None` for a path into another crate.
    fn resolve(&self, module: &Module, path: &str, reexports: usize) -> Option<Module> {
        let mut names = path.split("::").peekable();
        let mut at = match names.peek().copied()? {
            "crate" => Module::new(),
            "self" | "super" => module.clone(),
            child => {
                let is_child = self.files.contains_key(&[module, &[child.to_owned()][..]].concat());
                is_child.then(|| module.clone())?
            }
        };
        while let Some(name) = names.next_if(|name| ["crate", "self", "super"].contains(name)) {
            if name == "super" {
                at.pop();
            }
        }
        while let Some(name) = names.peek() {
            let child = [&at[..], &[(*name).to_owned()][..]].concat();
            if !self.files.contains_key(&child) {
                break;
            }
            (at, _) = (child, names.next());
        }
        let reexported = names.peek().and_then(|name| {
            let import = self.files.get(&at)?.imports.iter().find(|import| import.is_public && import.name == *name)?;
            (reexports < REEXPORTS_MAX).then(|| self.resolve(&at, &import.path, reexports + 1))?
        });
        Some(reexported.unwrap_or(at))
    }

    /// Returns the sets of files that import each other, directly or not.
    fn cycles(&self) -> Vec<Vec<&str>> {
        let reachable: BTreeMap<&Module, BTreeSet<&Module>> =
            self.edges.keys().map(|module| (module, self.reachable(module))).collect();
        let mut cycles = BTreeSet::new();
        for (module, targets) in &reachable {
            let cycle = targets.iter().filter(|target| reachable[*target].contains(module));
            let files: Vec<&str> = cycle.map(|module| self.files[*module].path.as_str()).collect();
            if files.len() > 1 {
                cycles.insert(files);
            }
        }
        cycles.into_iter().collect()
    }

    fn reachable<'a>(&'a self, module: &'a Module) -> BTreeSet<&'a Module> {
        let (mut found, mut pending) = (BTreeSet::new(), vec![module]);
        while let Some(next) = pending.pop() {
            pending.extend(self.edges[next].iter().filter(|target| found.insert(*target)));
        }
        found
    }
}

impl File {
    fn of(source: &Source) -> Self {
        let code = without_attributes(&without_tests(&code(&source.text)));
        let (imports, rest) = imports(&code);
        let mut declarations = rest.split(';').map(str::trim).filter(|text| !text.is_empty());
        let is_module = |text: &str| text.split_whitespace().rev().nth(1) == Some("mod");
        let is_facade = !rest.contains(['{', '=']) && declarations.all(is_module);
        Self { path: source.path.clone(), imports, inline: paths(&rest), is_facade }
    }
}

/// Removes the items that only tests have.
fn without_tests(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(start) = ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|test| rest.find(test)).min() {
        out.push_str(&rest[..start]);
        let mut depth = 0;
        let end = rest[start..].char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            ((c == '}' || c == ';') && depth == 0).then_some(at + 1)
        });
        rest = end.map_or("", |end| &rest[start + end..]);
    }
    out + rest
}

/// Removes attributes.
fn without_attributes(code: &str) -> String {
    let mut out = String::new();
    let mut rest = code;
    while let Some(start) = rest.find("#[").into_iter().chain(rest.find("#![")).min() {
        out.push_str(&rest[..start]);
        let mut depth = 0;
        let end = rest[start..].char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            (c == ']' && depth == 0).then_some(at + 1)
        });
        rest = end.map_or("", |end| &rest[start + end..]);
    }
    out + rest
}

/// Returns the names that the `use` declarations import, and the code without these declarations.
fn imports(code: &str) -> (Vec<Import>, String) {
    let (mut imports, mut out) = (Vec::new(), String::new());
    for statement in code.split_inclusive(';') {
        // A declaration follows a statement or a block, and may have a visibility.
        let start = statement.rmatch_indices("use ").map(|(start, _)| start).find(|start| {
            let before = statement[..*start].trim_end();
            before.is_empty() || before.ends_with(['{', '}', ')']) || before.ends_with("pub")
        });
        let Some(start) = start.filter(|_| statement.ends_with(';')) else {
            out.push_str(statement);
            continue;
        };
        let before = statement[..start].trim_end();
        let is_public = before.ends_with("pub") || before.ends_with(')');
        out.push_str(before.rfind("pub").filter(|_| is_public).map_or(before, |at| &before[..at]));
        let tree: String = statement[start + 4..statement.len() - 1].split_whitespace().collect::<Vec<_>>().join(" ");
        for path in expanded(&tree) {
            let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
            let path = path.trim().trim_end_matches("::self").to_owned();
            let last = path.rsplit("::").next().unwrap_or_default();
            let name = if alias.is_empty() { last } else { alias.trim() }.to_owned();
            imports.push(Import { name, path, is_public });
        }
    }
    (imports, out)
}

/// Returns the paths of a tree such as `a::{b, c::{d, e}}`.
fn expanded(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let body = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let mut depth = 0;
    let parts = body.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty()).flat_map(|part| expanded(part.trim()));
    parts.map(|part| format!("{}{part}", prefix.trim())).collect()
}

/// Returns the paths of at least two names in code.
fn paths(code: &str) -> Vec<String> {
    let words = code.split(|c: char| !is_word(c) && c != ':').map(|word| word.trim_matches(':'));
    words.filter(|word| word.contains("::")).map(ToOwned::to_owned).collect()
}
