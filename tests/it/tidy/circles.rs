//! Within a crate no files import each other in a circle: what a file needs can be read from below to above.
//!
//! A file imports the file that defines the item, not the file that hands the item on: `use super::Item` where the
//! module above says `pub use other::Item` is an import of `other`. A `mod` line is no import. Macros and glob imports
//! are followed to the file that they name. Unit tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::none;
use super::sources::{code_lines, product};

/// A path of modules from the root of the crate; empty = the root itself.
type Module = Vec<String>;

/// What a file imports, as its text says it.
struct Import {
    path: Vec<String>,
    /// The name that it has in the file; `None` = the import is a path in the code.
    name: Option<String>,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut crates: BTreeMap<String, BTreeMap<Module, File>> = BTreeMap::new();
    for file in product() {
        let parts: Vec<&str> = file.path.trim_end_matches(".rs").split('/').collect();
        let (name, module) = match parts.as_slice() {
            ["src", module @ ..] => ("program", module),
            ["crates", name, "src", module @ ..] => (*name, module),
            _ => continue,
        };
        // Of the program, `main` is another crate.
        let module = match module {
            ["main"] => continue,
            [above @ .., "mod" | "lib"] => above,
            module => module,
        };
        let module = module.iter().map(|part| (*part).to_owned()).collect();
        crates.entry(name.to_owned()).or_default().insert(module, File::of(file.code()));
    }
    let mut wrong = Vec::new();
    for (name, files) in crates {
        let graph = graph(&files);
        for circle in circles(&graph) {
            for module in &circle {
                let used = graph[module].iter().filter(|used| circle.contains(used));
                let used: Vec<String> = used.map(|used| used.join("::")).collect();
                wrong.push(format!("{name}: {} uses {}", module.join("::"), used.join(", ")));
            }
        }
    }
    none(&wrong);
}

/// What the code of a file names.
struct File {
    imports: Vec<Import>,
    /// The names that begin a path in the code.
    begins: BTreeSet<String>,
}

impl File {
    fn of(code: &str) -> Self {
        static USES: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?\s+)?use\s+([^;]+);").expect("valid")
        });
        static PATHS: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"\b(?:crate|super|self)(?:::\w+)+").expect("valid"));
        static FIRST: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?:^|[^\w:])(\w+)::").expect("valid"));
        let code = code_lines(code).collect::<Vec<_>>().join("\n");
        let mut imports = Vec::new();
        for line in USES.captures_iter(&code) {
            expand(&[], &line[1], &mut imports);
        }
        let rest = USES.replace_all(&code, "");
        imports.extend(PATHS.find_iter(&rest).map(|path| {
            let path = path.as_str().split("::").map(str::to_owned).collect();
            Import { path, name: None }
        }));
        let begins = FIRST.captures_iter(&rest).map(|found| found[1].to_owned());
        let begins = begins.filter(|name| !["crate", "super", "self"].contains(&&**name)).collect();
        Self { imports, begins }
    }
}

/// A tree such as `a::{b, c::{self, d as e}}` as its paths.
fn expand(above: &[String], tree: &str, found: &mut Vec<Import>) {
    let parts = |text: &str| -> Vec<String> {
        let parts = text.split("::").map(str::trim).filter(|part| !part.is_empty());
        above.iter().cloned().chain(parts.map(str::to_owned)).collect()
    };
    let Some((head, group)) = tree.split_once('{') else {
        let (path, name) = match tree.split_once(" as ") {
            Some((path, name)) => (path, Some(name.trim().to_owned())),
            None => (tree, None),
        };
        let mut path = parts(path);
        if path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned());
        return found.push(Import { path, name });
    };
    let (head, group) = (parts(head), group.rsplit_once('}').map_or(group, |(group, _)| group));
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    expand(&head, &group[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// For each file the files whose items it uses.
fn graph(files: &BTreeMap<Module, File>) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let used = |module: &Module| {
        let file = &files[module];
        let paths = file.imports.iter().filter_map(|import| absolute(files, module, &import.path));
        // Paths that begin at a module below.
        let below = file
            .begins
            .iter()
            .filter_map(|name| absolute(files, module, std::slice::from_ref(name)));
        let defined = paths.chain(below).filter_map(|path| definition(files, &path, 0));
        defined.filter(|other| *other != module).collect()
    };
    files.keys().map(|module| (module, used(module))).collect()
}

/// A path from the root of the crate; `None` = it is of another crate.
fn absolute(
    files: &BTreeMap<Module, File>,
    module: &Module,
    path: &[String],
) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module.as_slice(), rest].concat()),
        "super" => {
            let levels = path.iter().take_while(|part| *part == "super").count();
            let above = module.len().checked_sub(levels)?;
            Some([&module[..above], &path[levels..]].concat())
        }
        name => {
            let below = [module.as_slice(), &[name.to_owned()]].concat();
            files.contains_key(&below).then(|| [module.as_slice(), path].concat())
        }
    }
}

/// The file that defines what a path names: past the files that hand it on.
fn definition<'a>(
    files: &'a BTreeMap<Module, File>,
    path: &[String],
    steps: usize,
) -> Option<&'a Module> {
    let (module, file) = (0..=path.len())
        .rev()
        .find_map(|length| files.get_key_value(&path[..length]))
        .expect("the root is a file");
    let Some(name) = path.get(module.len()) else { return Some(module) };
    let handed_on = file.imports.iter().find(|import| import.name.as_ref() == Some(name));
    match handed_on {
        Some(import) if steps < 10 => {
            let path = absolute(files, module, &import.path)?;
            definition(files, &path, steps + 1)
        }
        _ => Some(module),
    }
}

/// The largest sets of files of which each leads to each other.
fn circles<'a>(graph: &BTreeMap<&'a Module, BTreeSet<&'a Module>>) -> Vec<Vec<&'a Module>> {
    let reached = |from: &'a Module| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(graph[module].iter().filter(|next| reached.insert(**next)));
        }
        reached
    };
    let from: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (*module, reached(module))).collect();
    let mut found: Vec<Vec<&Module>> = Vec::new();
    for (module, reached) in &from {
        let circle: Vec<&Module> =
            reached.iter().copied().filter(|other| from[other].contains(module)).collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}
