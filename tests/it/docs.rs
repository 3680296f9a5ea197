//! The pages of `docs/` and the README against the program: links lead to existing pages and headings, flags and
//! commands exist and all are described, named tests exist, and each page is in an index. Whether a page is right is
//! not tested.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::{flags, root};

/// All pages, by path from the root of the project.
fn pages() -> BTreeMap<PathBuf, String> {
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "bench/README.md"];
    let paths = FOLDERS.into_iter().flat_map(pages_in).chain(others.map(PathBuf::from));
    let text = |path: &PathBuf| std::fs::read_to_string(root().join(path)).expect("a page");
    paths.map(|path| (path.clone(), text(&path))).collect()
}

/// Folders of pages; each has an index.
const FOLDERS: [&str; 2] = ["docs", "docs/decisions"];

/// The paths of the pages of a folder.
fn pages_in(folder: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join(folder)).expect(folder);
    let paths = files.map(|file| Path::new(folder).join(file.expect("a file").file_name()));
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// The lines of a page, and whether each line is in a fence.
fn lines(page: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fenced = false;
    page.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (line, fenced || is_fence)
    })
}

/// The headings of a page as links name them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let headings = lines(page).filter(|(line, fenced)| !fenced && line.starts_with('#'));
    let anchor = |(line, _): (&str, bool)| {
        let heading = line.trim_start_matches('#').trim();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The code spans of a page.
fn spans(page: &str) -> Vec<String> {
    let text: Vec<&str> = lines(page).filter(|(_, fenced)| !fenced).map(|(line, _)| line).collect();
    // A span may continue in the next line.
    let text = text.join("\n");
    let paragraphs = text.split("\n\n");
    let inside = |paragraph: &str| {
        let code = paragraph.split('`').skip(1).step_by(2);
        code.map(|span| span.replace('\n', " ")).collect::<Vec<_>>()
    };
    paragraphs.flat_map(inside).collect()
}

/// All link targets of a page, except other sites.
fn all_links(page: &str) -> Vec<String> {
    let text: Vec<&str> = lines(page).filter(|(_, fenced)| !fenced).map(|(line, _)| line).collect();
    let text = text.join("\n");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

/// The other pages and folders that a page links to.
pub(crate) fn links(page: &str) -> Vec<String> {
    let targets = all_links(page).into_iter();
    let targets = targets.map(|link| link.split('#').next().unwrap_or_default().to_owned());
    targets.filter(|target| !target.is_empty()).collect()
}

#[test]
fn links_lead_to_pages_and_headings() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, page) in pages() {
        for link in all_links(&page) {
            count += 1;
            let (target, place) = link.split_once('#').unwrap_or((&link, ""));
            let folder = path.parent().expect("a folder");
            let file = match target {
                "" => root().join(&path),
                target => root().join(folder).join(target),
            };
            let known = match std::fs::read_to_string(&file) {
                Ok(page) => place.is_empty() || anchors(&page).contains(place),
                Err(_) => place.is_empty() && file.is_dir(),
            };
            if !known {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} links");
}

/// The output of `--help` of a command.
pub(crate) fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_promkairos"))
        .args(arguments)
        .arg("--help")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands that a help page lists.
pub(crate) fn commands(help: &str) -> BTreeSet<String> {
    let listed = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[test]
fn flags_and_commands_are_those_of_the_program() {
    let main = help(&[]);
    let commands = commands(&main);
    assert!(commands.contains("check-config") && commands.contains("wal"), "{commands:?}");
    let mut known = flags(&main);
    // Pages use it for any flag.
    known.insert("--a-b".to_owned());
    for command in commands.iter().filter(|command| *command != "help") {
        let page = help(&[command]);
        known.extend(flags(&page));
        for below in self::commands(&page).iter().filter(|below| *below != "help") {
            known.extend(flags(&help(&[command, below])));
        }
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, page) in pages() {
        let fenced = lines(&page).filter(|(_, fenced)| *fenced).map(|(line, _)| line);
        // A command may continue in the next line.
        let fenced = fenced.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
        let code = fenced.lines().map(str::to_owned).chain(spans(&page));
        for text in code {
            let asks = text.trim_start().strip_prefix("promkairos ");
            if asks.is_none() && !text.starts_with("--") {
                continue;
            }
            count += 1;
            // The rest of the line is a comment.
            let text = text.split(" # ").next().unwrap_or_default();
            wrong.extend(
                flags(text)
                    .difference(&known)
                    .map(|flag| format!("{}: {text}: {flag}", path.display())),
            );
            let command = asks.and_then(|rest| rest.trim_start().split(' ').next());
            let is_word = |word: &&str| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
            };
            let command = command.filter(is_word).filter(|word| !word.starts_with('-'));
            if command.is_some_and(|word| !commands.contains(word)) {
                wrong.push(format!("{}: {text}: no such command", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 50, "{count}");
}

/// The flags that the first column of a table names.
fn described_flags(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter(|line| line.starts_with("| `--"));
    rows.flat_map(|row| flags(row.split('|').nth(1).unwrap_or_default())).collect()
}

#[test]
fn the_pages_describe_every_flag() {
    let known = flags(&help(&[]));
    assert!(known.contains("--listen"), "{known:?}");
    let pages = pages();
    let docs = pages.iter().filter(|(path, _)| path.starts_with("docs"));
    let docs: String = docs.map(|(_, page)| page.as_str()).collect();
    let missing: Vec<&String> =
        known.iter().filter(|flag| !docs.contains(&format!("`{flag}"))).collect();
    assert!(missing.is_empty(), "docs/ does not describe {missing:?}");
    let lists = ["docs/settings.md", "docs/settings-by-topic.md"];
    let [all, mut by_topic] = lists.map(|path| described_flags(&pages[Path::new(path)]));
    assert!(all.is_subset(&known), "{:?}", all.difference(&known).collect::<Vec<_>>());
    // It names the file of settings, so it is not a setting itself.
    assert!(by_topic.remove("--config"), "{by_topic:?}");
    assert_eq!(by_topic, all, "the settings by topic, and all of them");
}

#[test]
fn the_first_pages_stay_short() {
    let pages = pages();
    for (path, most) in [("README.md", 200), ("ARCHITECTURE.md", 150)] {
        let lines = pages[Path::new(path)].lines().count();
        assert!(lines <= most, "{path}: {lines} lines");
    }
}

#[test]
fn every_page_is_in_the_index_of_its_folder() {
    let pages = pages();
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let index = Path::new(folder).join("README.md");
        let listed = links(&pages[&index]);
        for path in pages_in(folder).into_iter().filter(|path| *path != index) {
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if !listed.iter().any(|link| link == name) {
                wrong.push(format!("{}: no link to {name}", index.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_page_begins_with_what_it_is_for() {
    let pages = pages();
    let begins = |path: &PathBuf| {
        let first = pages[path].lines().nth(2).unwrap_or_default();
        first.starts_with("After this page you ")
    };
    let wrong: Vec<PathBuf> = pages_in("docs").into_iter().filter(|path| !begins(path)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The source file of a module of the tests or of the program.
fn source(module: &str) -> Option<String> {
    let path = module.replace("::", "/");
    let path = match path.strip_prefix("sim/") {
        Some(name) => format!("../sim/tests/{name}"),
        None => path,
    };
    let (first, rest) = path.split_once('/').unwrap_or((&path, "lib"));
    let of_crate = format!("crates/{}/src/{rest}", first.replace('_', "-"));
    [format!("tests/it/{path}"), format!("src/{path}"), of_crate].iter().find_map(|path| {
        let base = root().join(path);
        let files = [base.with_extension("rs"), base.join("mod.rs")];
        files.iter().find_map(|file| std::fs::read_to_string(file).ok())
    })
}

#[test]
fn the_tests_that_show_what_is_promised_exist() {
    let page = std::fs::read_to_string(root().join("docs/reliability.md")).expect("the page");
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for span in spans(&page) {
        let Some((module, function)) = span.rsplit_once("::") else { continue };
        let head = format!("fn {function}(");
        let is_test = source(module).is_some_and(|code| {
            let before = code.split(&head).next().filter(|before| before.len() < code.len());
            let attribute = before.map(|before| before.trim_end_matches("async ").trim_end());
            let last = attribute.and_then(|text| text.lines().last()).map(str::trim);
            last.is_some_and(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
        });
        if !is_test {
            wrong.push(span.clone());
        }
        named.insert(span);
    }
    assert!(wrong.is_empty(), "no such tests: {wrong:#?}");
    assert!(named.len() > 50, "{}", named.len());
}
