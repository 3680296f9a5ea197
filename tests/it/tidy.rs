//! The style of the project, as far as text shows it: which module may use which, how files begin,
//! how long they get, and what may not stand anywhere.
//!
//! The module of unit tests at the end of a file does not count for sizes and arrows.

mod circles;
mod sources;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) use self::sources::root;
use self::sources::{code_lines, files_below, product, rust_files, sources, text_files};

/// Longest file, in lines without its tests.
const FILE_LINES: usize = 500;
/// Longest function, in lines.
const FUNCTION_LINES: usize = 70;
/// Longest line, in characters.
const LINE: usize = 120;

/// What each crate, and each module of the program, may use of the others: the drawing in ARCHITECTURE.md and in
/// src/lib.rs.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("telemetry", &["model"]),
    ("chunk", &["model"]),
    ("kairos", &["model"]),
    ("kairos-json", &[]),
    ("kairos-query", &["kairos-json"]),
    ("kairos-write", &["kairos-json"]),
    ("wire", &["model"]),
    ("storage", &["chunk", "model"]),
    ("ingest", &["model", "storage", "telemetry", "wire"]),
    ("storage-embedded", &["chunk", "model", "storage", "telemetry", "wire"]),
    ("storage-cassandra", &["chunk", "kairos", "model", "storage", "telemetry"]),
    ("promql", &["chunk", "model", "storage"]),
    (
        "api",
        &[
            "chunk",
            "ingest",
            "kairos-query",
            "kairos-write",
            "model",
            "promql",
            "storage",
            "storage-cassandra",
            "telemetry",
            "wire",
        ],
    ),
    ("config", &["api", "ingest", "model", "storage", "telemetry"]),
    ("server", &["api", "config", "model", "storage", "telemetry"]),
    ("copy", &["chunk", "model", "promql", "storage", "wire"]),
    (
        "cli",
        &[
            "api",
            "config",
            "copy",
            "kairos_query",
            "model",
            "promql",
            "server",
            "storage",
            "telemetry",
        ],
    ),
    ("main", &["cli"]),
];

/// Crates and modules of the standard library that only some parts may use.
const RESERVED: &[(&str, &[&str])] = &[
    // The listener is served where everything is put together.
    ("axum::", &["crates/api/", "src/server"]),
    ("prost::", &["crates/api/"]),
    ("scylla::", &["crates/storage-cassandra/"]),
    ("prometheus_client::", &["crates/telemetry/"]),
    ("clap::", &["src/cli/", "src/config/"]),
    ("env::var", &["src/config/"]),
    ("SystemTime", &["crates/storage/src/clock.rs"]),
];

/// They know no I/O, no clock and no waiting.
const PURE: &[&str] =
    &["chunk", "kairos", "kairos-json", "kairos-query", "kairos-write", "model", "wire"];
/// What they do not use.
const IMPURE: &[&str] =
    &["tokio::", "std::fs", "std::net", "std::io", "SystemTime", "Instant::now", "async fn"];

#[test]
fn modules_use_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for file in sources("src") {
        let module = module_of(&file.path);
        if module == "lib" {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            wrong.push(format!("{}: ARROWS does not know the module {module}", file.path));
            continue;
        };
        let prefix = if module == "main" { "promkairos::" } else { "crate::" };
        for used in uses(file.code(), prefix) {
            // They are of the crate `model`.
            let used = if used == "limits" { "model".to_owned() } else { used };
            if used != module && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{}: {module} -> {used}", file.path));
            }
        }
    }
    none(&wrong);
}

#[test]
fn crates_use_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for package in files_below(&root().join("crates")) {
        let Some(name) = package.path.strip_suffix("/Cargo.toml") else { continue };
        let name = name.strip_prefix("crates/").expect("a crate");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("ARROWS does not know the crate {name}"));
            continue;
        };
        let manifest: toml::Table = package.text.parse().expect("TOML");
        let used = manifest.get("dependencies").and_then(toml::Value::as_table);
        for used in
            used.into_iter().flatten().filter_map(|(used, _)| used.strip_prefix("promkairos-"))
        {
            if !allowed.contains(&used) {
                wrong.push(format!("{name} -> {used}"));
            }
        }
    }
    none(&wrong);
}

#[test]
fn the_drawing_of_arrows_is_the_same_everywhere() {
    let file = |path: &str| std::fs::read_to_string(root().join(path)).expect(path);
    let head = file("src/lib.rs");
    let drawn = head.lines().filter_map(|line| line.strip_prefix("//! "));
    let drawing: Vec<&str> =
        drawn.skip_while(|line| *line != "```text").take_while(|line| *line != "```").collect();
    assert!(drawing.len() > 1, "src/lib.rs draws no arrows");
    assert!(file("ARCHITECTURE.md").contains(&drawing.join("\n")), "{drawing:#?}");
}

#[test]
fn reserved_crates_stay_where_they_belong() {
    let mut wrong = Vec::new();
    for file in product() {
        for (name, places) in RESERVED {
            let is_used = code_lines(file.code()).any(|line| has_path(line, name));
            if is_used && !places.iter().any(|place| file.path.starts_with(place)) {
                wrong.push(format!("{}: {name}", file.path));
            }
        }
        if PURE.contains(&module_of(&file.path).as_str()) {
            for name in IMPURE {
                if code_lines(file.code()).any(|line| line.contains(name)) {
                    wrong.push(format!("{}: {name}", file.path));
                }
            }
        }
    }
    none(&wrong);
}

/// What is opened elsewhere could be written through a link, or be open to everybody.
#[test]
fn one_file_opens_files_for_writing() {
    const THE_ONE: &str = "crates/storage/src/disk.rs";
    // Settings, which are only read.
    const READS: &str = "src/config/file.rs";
    const OPENS: [&str; 7] = [
        "File::create",
        "File::options",
        "OpenOptions",
        "DirBuilder",
        "fs::write",
        "fs::copy",
        "fs::create_dir",
    ];
    let (mut wrong, mut found) = (Vec::new(), 0);
    for file in product() {
        let opens = |line: &&str| OPENS.iter().any(|call| line.contains(call));
        for line in code_lines(file.code()).filter(opens) {
            match file.path.as_str() {
                THE_ONE => found += 1,
                READS => {}
                _ => wrong.push(format!("{}: {}", file.path, line.trim())),
            }
        }
    }
    assert!(found > 0, "looks for nothing that is there");
    none(&wrong);
}

/// What is added beside it would need no right.
#[test]
fn routes_are_made_from_the_table_alone() {
    const MADE: &str = "crates/api/src/router.rs";
    const ADDS: [&str; 4] = [".route(", ".route_service(", ".nest(", ".nest_service("];
    let (mut wrong, mut found) = (Vec::new(), 0);
    for file in product() {
        let adds = |line: &&str| ADDS.iter().any(|call| line.contains(call));
        for line in code_lines(file.code()).filter(adds) {
            match file.path == MADE {
                true => found += 1,
                false => wrong.push(format!("{}: {}", file.path, line.trim())),
            }
        }
    }
    assert_eq!(found, 2, "a path of the table, and the same with a slash");
    none(&wrong);
}

#[test]
fn files_open_with_what_they_are() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let head: Vec<&str> =
            file.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if head.is_empty() {
            wrong.push(format!("{}: does not open with //!", file.path));
        }
        // Boxes of bytes and drawings have fences and do not count.
        let fenced = head.split(|line| line.starts_with("//! ```")).skip(1).step_by(2).flatten();
        let length = head.len() - fenced.count();
        if length > 15 + 2 {
            wrong.push(format!("{}: {length} lines of //!", file.path));
        }
    }
    none(&wrong);
}

#[test]
fn files_and_functions_stay_short() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        let lines = file.code().lines().count();
        let is_test = file.path.starts_with("tests/");
        if lines > FILE_LINES && !is_test {
            wrong.push(format!("{}: {lines} lines", file.path));
        }
        // A table of cases may be as long as it has cases.
        if is_test {
            continue;
        }
        for (name, lines) in functions(file.code()) {
            let name = format!("{}: {name}", file.path);
            if lines > FUNCTION_LINES {
                wrong.push(format!("{name}: {lines} lines"));
            }
        }
    }
    none(&wrong);
}

/// From the files that Cargo compiles, along the `mod` lines.
#[test]
fn every_file_is_compiled() {
    let files: BTreeMap<String, String> =
        rust_files().into_iter().map(|file| (file.path, file.text)).collect();
    let mut open: Vec<(String, ModulesIn)> = files
        .keys()
        .filter(|path| is_root(path))
        .map(|path| (path.clone(), ModulesIn::SameFolder))
        .collect();
    assert!(ROOTS.iter().all(|root| files.contains_key(*root)), "{ROOTS:?}");
    let (mut compiled, mut wrong) = (BTreeSet::new(), Vec::new());
    while let Some((path, modules_in)) = open.pop() {
        if !compiled.insert(path.clone()) {
            continue;
        }
        for (name, places) in modules_of(&path, &files[&path], modules_in) {
            match places.into_iter().find(|(place, _)| files.contains_key(place)) {
                Some(found) => open.push(found),
                None => wrong.push(format!("{path}: no file for mod {name}")),
            }
        }
    }
    wrong.extend(files.keys().filter(|path| !compiled.contains(*path)).cloned());
    none(&wrong);
}

/// What Cargo finds by itself or by a `Cargo.toml`, beside the files of [`ROOT_FOLDERS`].
const ROOTS: [&str; 9] = [
    "build.rs",
    "src/lib.rs",
    "src/main.rs",
    "tests/it/main.rs",
    "bench/load/src/main.rs",
    "bench/micro/src/lib.rs",
    "tests/sim/src/lib.rs",
    "tests/sim/src/main.rs",
    "xtask/src/main.rs",
];
/// Every file of them is a program.
const ROOT_FOLDERS: [&str; 3] = ["fuzz/fuzz_targets", "bench/micro/benches", "tests/sim/tests"];

fn is_root(path: &str) -> bool {
    let folder = Path::new(path).parent().and_then(Path::to_str);
    let of_crate = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    ROOTS.contains(&path)
        || of_crate.is_some_and(|(_, path)| ["src/lib.rs", "build.rs"].contains(&path))
        || folder.is_some_and(|folder| ROOT_FOLDERS.contains(&folder))
}

/// Where the modules of a file are.
#[derive(Debug, Clone, Copy)]
enum ModulesIn {
    /// Beside it.
    SameFolder,
    /// In a folder of its name.
    OwnFolder,
}

/// The `mod` lines of a file: their names, and the files that each may mean.
fn modules_of(
    path: &str,
    text: &str,
    modules_in: ModulesIn,
) -> Vec<(String, Vec<(String, ModulesIn)>)> {
    let beside = Path::new(path).parent().expect("a folder");
    let folder = match modules_in {
        ModulesIn::SameFolder => beside.to_owned(),
        ModulesIn::OwnFolder => Path::new(path).with_extension(""),
    };
    let place = |path: PathBuf| plain(&path);
    let (mut modules, mut said) = (Vec::new(), None);
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"") {
            said = path.strip_suffix("\"]");
        } else if let Some(name) = declared(line) {
            let places = match said.take() {
                Some(said) => vec![(place(beside.join(said)), ModulesIn::SameFolder)],
                None => vec![
                    (place(folder.join(format!("{name}.rs"))), ModulesIn::OwnFolder),
                    (place(folder.join(name).join("mod.rs")), ModulesIn::SameFolder),
                ],
            };
            modules.push((name.to_owned(), places));
        }
    }
    modules
}

/// The name in a line such as `pub(crate) mod name;`.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.strip_suffix(';')?.split_once("mod ")?;
    let before = before.trim();
    (before.is_empty() || before == "pub" || before.starts_with("pub(")).then_some(name)
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.iter().map(|part| part.to_str().expect("UTF-8")) {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// rustfmt decides on code, but leaves texts and comments as they are.
#[test]
fn lines_stay_short() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        for (at, line) in file.text.lines().enumerate() {
            let length = line.chars().count();
            if length > LINE {
                wrong.push(format!("{}:{}: {length} characters", file.path, at + 1));
            }
        }
    }
    none(&wrong);
}

/// `cargo run` hands the variables of a build script on to the program, which refuses unknown settings.
#[test]
fn the_build_sets_no_setting() {
    let script = std::fs::read_to_string(root().join("build.rs")).expect("a build script");
    let mut wrong = Vec::new();
    let mut found = false;
    for (_, variable) in script.lines().filter_map(|line| line.split_once("rustc-env=")) {
        found = true;
        if variable.starts_with("PROMKAIROS_") {
            wrong.push(variable.to_owned());
        }
    }
    assert!(found, "looks for nothing that is there");
    none(&wrong);
}

#[test]
fn names_say_what_a_thing_is() {
    const EMPTY: &[&str] =
        &["util", "utils", "helper", "helpers", "common", "misc", "manager", "service"];
    let mut wrong = Vec::new();
    for file in rust_files() {
        let path = Path::new(&file.path);
        let parts = path.with_extension("");
        if parts.iter().any(|part| EMPTY.iter().any(|empty| part == *empty)) {
            wrong.push(file.path.clone());
        }
        for line in file.text.lines() {
            let name = line.trim().trim_start_matches("pub ").strip_prefix("mod ");
            let name = name.map(|rest| rest.trim_end_matches([';', '{', ' ']));
            if name.is_some_and(|name| EMPTY.contains(&name)) {
                wrong.push(format!("{}: {}", file.path, line.trim()));
            }
        }
    }
    none(&wrong);
}

#[test]
fn public_functions_take_no_bool() {
    let mut wrong = Vec::new();
    for file in product() {
        let (plain, waiting) = (file.code().match_indices("pub fn "), "pub async fn ");
        for (at, _) in plain.chain(file.code().match_indices(waiting)) {
            let rest = &file.code()[at..];
            let signature = rest.split([';', '{']).next().unwrap_or_default();
            let parameters = signature.split(") ->").next().unwrap_or_default();
            if parameters.contains(": bool") {
                let first = signature.lines().next().unwrap_or_default();
                wrong.push(format!("{}: {first}", file.path));
            }
        }
    }
    none(&wrong);
}

#[test]
fn nothing_is_left_open_or_switched_off() {
    // In two halves, so that this file does not find itself.
    let words = [
        ["todo", "!("],
        ["unimplemented", "!("],
        ["#[ign", "ore"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["dbg", "!("],
    ];
    let mut wrong = Vec::new();
    for file in rust_files() {
        for word in words.map(|halves| halves.concat()) {
            if file.text.contains(&word) {
                wrong.push(format!("{}: {word}", file.path));
            }
        }
    }
    none(&wrong);
}

/// Programs, tests, benchmarks and fuzz targets alike.
#[test]
fn only_allocators_are_unsafe() {
    // The allocator of the program, and one that counts in unit tests.
    const ALLOCATORS: [&str; 2] = ["src/server/allocator.rs", "crates/storage/src/counting.rs"];
    // In two halves, so that this file does not find itself.
    let words = [["uns", "afe"], ["uns", "afe_code"]].map(|halves| halves.concat());
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (mut wrong, mut found) = (Vec::new(), 0);
    for file in rust_files() {
        for line in code_lines(&file.text) {
            let mut parts = line.split(|c: char| !is_part(c));
            if !parts.any(|part| words.iter().any(|word| word == part)) {
                continue;
            }
            match ALLOCATORS.contains(&file.path.as_str()) {
                true => found += 1,
                false => wrong.push(format!("{}: {}", file.path, line.trim())),
            }
        }
    }
    assert!(found > 0, "looks for nothing that is there");
    none(&wrong);
}

#[test]
fn every_package_denies_what_only_one_file_may_do() {
    let mut packages = files_below(root());
    packages.retain(|file| Path::new(&file.path).ends_with("Cargo.toml"));
    assert!(packages.len() > 3, "this one, the benchmarks and the fuzz targets");
    let first: toml::Table = std::fs::read_to_string(root().join("Cargo.toml"))
        .expect("a manifest")
        .parse()
        .expect("TOML");
    let shared = first.get("workspace").and_then(|workspace| workspace.get("lints")).cloned();
    let mut wrong = Vec::new();
    for package in packages {
        let manifest: toml::Table = package.text.parse().expect("TOML");
        let lints = manifest.get("lints");
        let is_shared = lints.and_then(|lints| lints.get("workspace")).is_some();
        let lints = if is_shared { shared.as_ref() } else { lints };
        let lints = lints.and_then(|lints| lints.get("rust"));
        let level = lints.and_then(|rust| rust.get(["uns", "afe_code"].concat()));
        if level.and_then(toml::Value::as_str) != Some("deny") {
            wrong.push(package.path);
        }
    }
    none(&wrong);
}

#[test]
fn no_file_knows_a_machine() {
    let words = [
        ["/wo", "rk/"],
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["deb.deb", "ian.org"],
        ["repo1.", "maven"],
        ["repo.", "maven"],
        ["index.", "crates.io"],
    ];
    let mut wrong = Vec::new();
    for file in text_files() {
        for word in words.map(|halves| halves.concat()) {
            if file.text.contains(&word) {
                wrong.push(format!("{}: {word}", file.path));
            }
        }
    }
    none(&wrong);
}

/// Everything that looks like a long flag.
pub(crate) fn flags(text: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c: char| !is_name(c));
    words
        .filter(|word| word.len() > 3 && word.starts_with("--"))
        .filter(|word| word.as_bytes()[2].is_ascii_lowercase())
        .map(str::to_owned)
        .collect()
}

/// The crate, or the module of the program, that a file belongs to.
fn module_of(path: &str) -> String {
    let rest = path.strip_prefix("src/").or_else(|| path.strip_prefix("crates/"));
    let rest = rest.expect("below src or crates");
    rest.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
}

/// The modules of this crate that the code names after `prefix`.
fn uses(code: &str, prefix: &str) -> BTreeSet<String> {
    let code: String = code_lines(code).collect::<Vec<_>>().join("\n");
    let rests = code.match_indices(prefix).map(|(at, _)| &code[at + prefix.len()..]);
    rests.flat_map(first_names).collect()
}

/// The name after `crate::`, or the names at the top of a group in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![name(rest)] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty() && name != "self");
    names
}

/// Whether a path of this name is used, not one that ends in it.
fn has_path(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Names and lengths of the functions, found by their indentation: the code is formatted.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start().split("fn ").collect::<Vec<_>>();
        let is_function = words.len() == 2
            && words[0].split_whitespace().all(|word| {
                // Of `pub(in path)` the second word is the path.
                word.starts_with("pub") || word.ends_with(')') || ["async", "const"].contains(&word)
            });
        if !is_function || line.ends_with('}') || line.ends_with(';') {
            continue;
        }
        let end = lines[start + 1..].iter().position(|line| {
            let own = line.len() - line.trim_start().len() == indent && !line.is_empty();
            own && (line.trim() == "}" || line.ends_with(';'))
        });
        let name = words[1].split(['(', '<']).next().unwrap_or_default();
        found.push((name.to_owned(), end.map_or(1, |end| end + 2)));
    }
    found
}

#[track_caller]
fn none(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
