//! The public interface of the libraries, held by a list: what is removed or changed there breaks programs.
//!
//! The list is read from the sources: names, signatures, public fields, variants, and the traits that a type implements or
//! derives. What macros generate is not seen. After a change that is meant, `UPDATE_PUBLIC_API=1 cargo test -p rusm --test
//! public_api` writes the list; its diff is part of the review. `docs/policy.md` says which changes need which version.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::spanned::Spanned;
use syn::{Attribute, Fields, Ident, ImplItem, Item, ItemImpl, Meta, TraitItem, UseTree, Visibility};

/// Crates with names that an application uses, and the module that has them there.
const CRATES: [(&str, &str); 8] = [
    ("rusm", "rusm"),
    ("runtime", "rusm"),
    ("console", "rusm::console"),
    ("store", "rusm::store"),
    ("serve", "rusm::serve"),
    ("wasm", "rusm::wasm"),
    ("cluster", "rusm::cluster"),
    ("otlp", "rusm::otlp"),
];

/// Path of a module inside its crate.
type Module = Vec<String>;

/// The items of a crate by module.
struct Crate {
    modules: BTreeMap<Module, Vec<Item>>,
    /// Module and position of each `impl` block, by the module and the name of its type.
    impls: BTreeMap<(Module, String), Vec<(Module, usize)>>,
    /// Names whose imports are being followed, because modules may import all of each other.
    followed: RefCell<BTreeSet<(Module, String)>>,
}

#[test]
fn the_public_interface_is_that_of_the_list() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeSet::new();
    for (folder, prefix) in CRATES {
        let library = Crate::read(&root.join(folder).join("src"));
        library.list(&Module::new(), prefix, &mut found);
        library.list_foreign_impls(prefix, &mut found);
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public-api.txt");
    if std::env::var_os("UPDATE_PUBLIC_API").is_some() {
        fs::write(&list, found.iter().flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
    }
    let expected: BTreeSet<String> = fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect();
    let removed: Vec<_> = expected.difference(&found).collect();
    let added: Vec<_> = found.difference(&expected).collect();
    assert!(
        removed.is_empty() && added.is_empty(),
        "removed: {removed:#?}\nadded: {added:#?}\nif this is meant: UPDATE_PUBLIC_API=1 cargo test -p rusm --test public_api"
    );
    assert!(found.len() > 2_000, "the sources were read");
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut modules = BTreeMap::new();
        read_file(&src.join("lib.rs"), src, Module::new(), &mut modules);
        let mut this = Self { modules, impls: BTreeMap::new(), followed: RefCell::default() };
        for (module, items) in &this.modules {
            for (position, item) in items.iter().enumerate() {
                if let Item::Impl(block) = item
                    && let Some(key) = this.definition_of(module, &self_type(block))
                {
                    this.impls.entry(key).or_default().push((module.clone(), position));
                }
            }
        }
        this
    }

    /// Lists what the crate implements for types of other crates: their traits, such as `From`, and its own public ones.
    fn list_foreign_impls(&self, prefix: &str, lines: &mut BTreeSet<String>) {
        for (module, items) in &self.modules {
            for item in items {
                let Item::Impl(block) = item else { continue };
                let Some((implemented, _)) = &block.trait_ else { continue };
                let path: Vec<String> = implemented.segments.iter().map(|segment| segment.ident.to_string()).collect();
                let is_private = self.definition_of(module, &path).is_some_and(|(inner, ident)| {
                    self.modules[&inner].iter().all(|item| {
                        !matches!(item, Item::Trait(own) if own.ident == ident && matches!(own.vis, Visibility::Public(_)))
                    })
                });
                if !is_private && self.definition_of(module, &self_type(block)).is_none() {
                    let (generics, kind) = (source(&block.generics), source(&block.self_ty));
                    lines.insert(format!("{prefix}: impl{generics} {} for {kind}", source(implemented)));
                }
            }
        }
    }

    /// Lists the public items of a module under `prefix`.
    fn list(&self, module: &Module, prefix: &str, lines: &mut BTreeSet<String>) {
        for item in &self.modules[module] {
            let Some(name) = public_name(item) else { continue };
            match item {
                Item::Mod(_) => {
                    self.list_path(module, std::slice::from_ref(&name), &format!("{prefix}::{name}"), lines);
                }
                Item::Use(used) => {
                    let mut leaves = Vec::new();
                    leaves_of(&used.tree, &mut Vec::new(), &mut leaves);
                    for (path, name) in leaves {
                        let prefix = if name == "*" { prefix.to_owned() } else { format!("{prefix}::{name}") };
                        self.list_path(module, &path, &prefix, lines);
                    }
                }
                _ => self.describe(module, item, &name, &format!("{prefix}::{name}"), lines),
            }
        }
    }

    /// Lists what `path` names in `module`. Names of other crates are listed alone.
    fn list_path(&self, module: &Module, path: &[String], name: &str, lines: &mut BTreeSet<String>) {
        if let Some(inner) = self.module_of(module, path) {
            lines.insert(format!("{name}: mod"));
            return self.list(&inner, name, lines);
        }
        match self.definition_of(module, path) {
            Some((inner, ident)) => {
                let defines =
                    |item: &&Item| !matches!(item, Item::Use(_)) && defined_name(item).is_some_and(|own| own == ident);
                for item in self.modules[&inner].iter().filter(defines) {
                    self.describe(&inner, item, &ident, name, lines);
                }
            }
            None => {
                lines.insert(format!("{name}: use {}", path.join("::")));
            }
        }
    }

    /// Lists an item, its public parts, and its `impl` blocks.
    fn describe(&self, module: &Module, item: &Item, ident: &str, name: &str, lines: &mut BTreeSet<String>) {
        let mut add = |text: String| {
            lines.insert(format!("{name}: {text}"));
        };
        let attributes_of = |attributes: &[Attribute]| {
            attributes
                .iter()
                .filter(|one| one.path().is_ident("derive") || one.path().is_ident("non_exhaustive"))
                .map(source)
                .collect()
        };
        let mut derived: Vec<String> = Vec::new();
        match item {
            Item::Struct(item) => {
                add(format!("{}struct{}", condition(&item.attrs), source(&item.generics)));
                fields(&item.fields, "", &mut add);
                derived = attributes_of(&item.attrs);
            }
            Item::Enum(item) => {
                add(format!("{}enum{}", condition(&item.attrs), source(&item.generics)));
                for variant in &item.variants {
                    add(format!("variant {}", variant.ident));
                    fields(&variant.fields, &format!("{}.", variant.ident), &mut add);
                }
                derived = attributes_of(&item.attrs);
            }
            Item::Trait(item) => {
                add(format!("trait{}: {}", source(&item.generics), source(&item.supertraits))
                    .trim_end_matches(": ")
                    .to_owned());
                for inner in &item.items {
                    match inner {
                        TraitItem::Fn(inner) if !hidden(&inner.attrs) => {
                            add(condition(&inner.attrs) + &source(&inner.sig));
                        }
                        TraitItem::Type(inner) => add(source(inner)),
                        TraitItem::Const(inner) => add(format!("const {}: {}", inner.ident, source(&inner.ty))),
                        _ => {}
                    }
                }
            }
            Item::Fn(item) => add(condition(&item.attrs) + &source(&item.sig)),
            Item::Const(item) => add(format!("const {}", source(&item.ty))),
            Item::Static(item) => add(format!("static {}", source(&item.ty))),
            Item::Type(item) => add(source(item).trim_start_matches("pub ").to_owned()),
            Item::Macro(_) => add("macro".to_owned()),
            _ => {}
        }
        derived.into_iter().for_each(&mut add);
        for (module, position) in self.impls.get(&(module.clone(), ident.to_owned())).into_iter().flatten() {
            let Item::Impl(block) = &self.modules[module][*position] else { continue };
            if let Some((implemented, _)) = &block.trait_ {
                add(format!("impl{} {} for {}", source(&block.generics), source(implemented), source(&block.self_ty)));
                continue;
            }
            for inner in &block.items {
                match inner {
                    ImplItem::Fn(inner) if public(&inner.vis, &inner.attrs) => {
                        add(condition(&inner.attrs) + &source(&inner.sig));
                    }
                    ImplItem::Const(inner) if public(&inner.vis, &inner.attrs) => {
                        add(format!("const {}: {}", inner.ident, source(&inner.ty)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the module that `path` names in `module`.
    fn module_of(&self, module: &Module, path: &[String]) -> Option<Module> {
        let mut base = module.clone();
        for (position, segment) in path.iter().enumerate() {
            match segment.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => {
                    base.pop();
                }
                _ => {
                    base.push(segment.clone());
                    if !self.modules.contains_key(&base) {
                        base.pop();
                        return self.follow(&base, segment, |next| {
                            let rest: Module = next.iter().chain(&path[position + 1..]).cloned().collect();
                            self.module_of(&base, &rest)
                        });
                    }
                }
            }
        }
        Some(base)
    }

    /// Returns the module and the name of the item that `path` names in `module`.
    fn definition_of(&self, module: &Module, path: &[String]) -> Option<(Module, String)> {
        let (name, parents) = path.split_last()?;
        let inner = self.module_of(module, parents)?;
        let items = self.modules.get(&inner)?;
        if items.iter().any(|item| {
            !matches!(item, Item::Use(_) | Item::Mod(_)) && defined_name(item).is_some_and(|own| own == *name)
        }) {
            return Some((inner, name.clone()));
        }
        self.follow(&inner, name, |next| self.definition_of(&inner, next))
    }

    /// Tries each import of `module` that may bring `name` into it.
    fn follow<T>(&self, module: &Module, name: &str, resolve: impl Fn(&[String]) -> Option<T>) -> Option<T> {
        let key = (module.clone(), name.to_owned());
        if !self.followed.borrow_mut().insert(key.clone()) {
            return None;
        }
        let found = self.import_of(module, name, resolve);
        self.followed.borrow_mut().remove(&key);
        found
    }

    fn import_of<T>(&self, module: &Module, name: &str, resolve: impl Fn(&[String]) -> Option<T>) -> Option<T> {
        for item in &self.modules[module] {
            let Item::Use(used) = item else { continue };
            let mut leaves = Vec::new();
            leaves_of(&used.tree, &mut Vec::new(), &mut leaves);
            for (mut path, own) in leaves {
                if own == "*" {
                    path.push(name.to_owned());
                } else if own != name {
                    continue;
                }
                // A name of another crate, or one that is imported from itself.
                if path.len() > 1
                    && let Some(found) = resolve(&path)
                {
                    return Some(found);
                }
            }
        }
        None
    }
}

/// Reads a file and those of the modules that it declares. `folder` is where these are.
fn read_file(file: &Path, folder: &Path, module: Module, modules: &mut BTreeMap<Module, Vec<Item>>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let items = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).items;
    read_items(items, folder, module, modules);
}

fn read_items(items: Vec<Item>, folder: &Path, module: Module, modules: &mut BTreeMap<Module, Vec<Item>>) {
    for item in &items {
        let Item::Mod(inner) = item else { continue };
        if inner.attrs.iter().any(|attribute| source(attribute) == "#[cfg(test)]") {
            continue;
        }
        let name = inner.ident.to_string();
        let path: Module = module.iter().cloned().chain([name.clone()]).collect();
        match &inner.content {
            Some((_, items)) => read_items(items.clone(), &folder.join(&name), path, modules),
            None => read_file(&folder.join(&name).with_extension("rs"), &folder.join(&name), path, modules),
        }
    }
    modules.insert(module, items);
}

/// Adds the paths that a `use` imports, each with the name that it gets.
fn leaves_of(tree: &UseTree, path: &mut Vec<String>, leaves: &mut Vec<(Vec<String>, String)>) {
    let mut leaf = |path: &[String], last: &Ident, name: &Ident| {
        let last = Some(last.to_string()).filter(|last| last != "self");
        leaves.push((
            path.iter().cloned().chain(last.clone()).collect(),
            match last {
                None => path.last().cloned().unwrap_or_default(),
                Some(_) => name.to_string(),
            },
        ));
    };
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            leaves_of(&inner.tree, path, leaves);
            path.pop();
        }
        UseTree::Name(inner) => leaf(path, &inner.ident, &inner.ident),
        UseTree::Rename(inner) => leaf(path, &inner.ident, &inner.rename),
        UseTree::Glob(_) => leaves.push((path.clone(), "*".to_owned())),
        UseTree::Group(group) => group.items.iter().for_each(|inner| leaves_of(inner, path, leaves)),
    }
}

/// Returns the path of the type of an `impl` block, or nothing for references, tuples and the like.
fn self_type(block: &ItemImpl) -> Vec<String> {
    match &*block.self_ty {
        syn::Type::Path(path) => path.path.segments.iter().map(|segment| segment.ident.to_string()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the name that an item defines. An import defines none of its own.
fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns the name of a public item, which is `use` for an import.
fn public_name(item: &Item) -> Option<String> {
    let (visibility, attributes) = match item {
        Item::Const(item) => (&item.vis, &item.attrs),
        Item::Enum(item) => (&item.vis, &item.attrs),
        Item::Fn(item) => (&item.vis, &item.attrs),
        Item::Mod(item) => (&item.vis, &item.attrs),
        Item::Static(item) => (&item.vis, &item.attrs),
        Item::Struct(item) => (&item.vis, &item.attrs),
        Item::Trait(item) => (&item.vis, &item.attrs),
        Item::Type(item) => (&item.vis, &item.attrs),
        Item::Use(item) => (&item.vis, &item.attrs),
        Item::Macro(item) => {
            let is_exported =
                item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) && !hidden(&item.attrs);
            return item.ident.as_ref().filter(|_| is_exported).map(Ident::to_string);
        }
        _ => return None,
    };
    let name = || defined_name(item).unwrap_or_else(|| "use".to_owned());
    public(visibility, attributes).then(name)
}

fn public(visibility: &Visibility, attributes: &[Attribute]) -> bool {
    matches!(visibility, Visibility::Public(_)) && !hidden(attributes)
}

fn hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| matches!(&attribute.meta, Meta::List(list) if list.path.is_ident("doc") && source(list) == "doc(hidden)"))
}

/// Adds the public fields of a struct, or those of a variant, whose names begin with `prefix`.
fn fields(fields: &Fields, prefix: &str, add: &mut impl FnMut(String)) {
    for (position, field) in fields.iter().enumerate() {
        let is_public = !prefix.is_empty() || public(&field.vis, &field.attrs);
        if is_public {
            let name = field.ident.as_ref().map_or_else(|| position.to_string(), Ident::to_string);
            add(format!("field {prefix}{name}: {}", source(&field.ty)));
        }
    }
}

/// Returns the features without which an item does not exist.
fn condition(attributes: &[Attribute]) -> String {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.map(|attribute| source(attribute) + " ").collect::<Vec<_>>().concat()
}

/// Returns the source of a part on one line.
fn source(part: &impl Spanned) -> String {
    let text = part.span().source_text().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace("< ", "<").replace(", >", ">")
}
