//! Comments and pages use no phrase that a first reader has to parse twice. The glossary has the words to use instead.

use super::none;
use super::sources::{File, rust_files, text_files};

/// A phrase, and what to say instead. Each is in two halves, so that this file does not find itself.
const PHRASES: [([&str; 2], &str); 16] = [
    (["is ", "told"], "is logged, returned, reported or passed"),
    (["are ", "told"], "are logged, returned, reported or passed"),
    (["be ", "told"], "be logged, returned, reported or passed"),
    (["is ", "shown"], "is printed, displayed or returned"),
    (["are ", "shown"], "are printed, displayed or returned"),
    (["stands ", "in"], "is stored in, is listed in, replaces"),
    (["stand ", "in"], "are stored in, are listed in, replace"),
    (["so ", "many"], "the count, the number, at most"),
    (["one ", "of it"], "the noun itself"),
    (["That ", "of"], "the noun itself"),
    (["Those ", "of"], "the noun itself"),
    (["hangs ", "on"], "depends on"),
    (["hang ", "on"], "depend on"),
    (["in a ", "hurry"], "what waits for it"),
    (["nobody ", "waits for"], "background"),
    (["is ", "let"], "is allowed"),
];

#[test]
fn comments_and_pages_use_plain_words() {
    let mut wrong = Vec::new();
    for file in rust_files() {
        // A sentence goes on in the next line.
        let comments: Vec<&str> = file
            .text
            .lines()
            .filter_map(|line| line.split_once("//").map(|(_, comment)| comment))
            .map(|comment| comment.trim_start_matches(['/', '!']).trim())
            .collect();
        wrong.extend(found(&file, &comments.join(" ")));
    }
    let pages = text_files().into_iter().filter(|file| file.path.ends_with(".md"));
    for page in pages.filter(|page| !page.path.starts_with("bench/results/")) {
        let text: Vec<&str> = page.text.split_whitespace().collect();
        wrong.extend(found(&page, &text.join(" ")));
    }
    none(&wrong);
}

fn found(file: &File, text: &str) -> Vec<String> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-');
    let mut wrong = Vec::new();
    for (phrase, instead) in PHRASES {
        let phrase = phrase.concat();
        for (at, _) in text.match_indices(&phrase) {
            let (before, after) = (&text[..at], &text[at + phrase.len()..]);
            if is_part(before.chars().next_back()) || is_part(after.chars().next()) {
                continue;
            }
            let rest: String = after.chars().take(40).collect();
            wrong.push(format!("{}: \"{phrase}{rest}\": say {instead}", file.path));
        }
    }
    wrong
}
