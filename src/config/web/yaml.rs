//! The tree of a YAML file with its lines, so that every error names file, line and key.
//!
//! An unknown key is refused, and the error names the key that was probably meant. No error
//! contains a value, which may be a secret.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

use super::super::arguments::nearest;
use super::super::error::ConfigError;
use super::super::keys::Key;

/// Words of YAML 1.1 that mean true, beside `true`.
const YES: [&str; 8] = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"];
/// Words of YAML 1.1 that mean false, beside `false`.
const NO: [&str; 8] = ["n", "N", "no", "No", "NO", "off", "Off", "OFF"];

/// The parser's message about a key that a mapping has twice, at the second one.
const TWICE: &str = "duplicated key in mapping";

/// A value that owns its texts.
type Node = MarkedYaml<'static>;

/// A value and its position.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    file: &'a Path,
    /// The whole text of the file.
    text: &'a str,
    /// The range of the value in the text, in characters.
    span: (usize, usize),
    /// The path of keys from the top, separated by dots; empty at the top.
    key: String,
    /// Line, from 1.
    line: usize,
    value: &'a YamlData<'static, Node>,
}

/// The entries of a mapping, in their order, by key.
pub(super) type Entries<'a> = Vec<(String, Entry<'a>)>;

/// Passes the value at the top of a text to `read`; `None` if there is no document.
pub(super) fn read<T>(
    file: &Path,
    text: &str,
    read: impl FnOnce(Option<Entry<'_>>) -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    let documents = Node::load_from_str(text).map_err(|error| {
        let line = error.marker().line().max(1);
        let reason = match error.info() {
            TWICE => twice(key_at(text, error.marker().index())),
            info => info.to_owned(),
        };
        ConfigError::Content { path: file.to_owned(), line, reason }
    })?;
    match documents.as_slice() {
        [] => read(None),
        [document] => read(Some(top(file, text, document))),
        [_, second, ..] => {
            Err(top(file, text, second).refuse("a second document, where one is read"))
        }
    }
}

/// The reason of an error about a key that occurs twice.
fn twice(key: &str) -> String {
    match key {
        "" => "duplicate key".to_owned(),
        key => format!("duplicate key {key}"),
    }
}

/// The key that begins at this character, as it is written; empty if it is not a text.
fn key_at(text: &str, start: usize) -> &str {
    let start = text.char_indices().nth(start).map_or(text.len(), |(at, _)| at);
    let line = text[start..].lines().next().unwrap_or_default();
    let quote = line.chars().next().filter(|first| matches!(first, '"' | '\''));
    let end = match quote {
        Some(quote) => line[1..].find(quote).map(|at| at + 2),
        None => line.find([':', ',', '{', '}', '[', ']']),
    };
    line[..end.unwrap_or(line.len())].trim_end()
}

fn top<'a>(file: &'a Path, text: &'a str, node: &'a Node) -> Entry<'a> {
    let (key, value) = (String::new(), &node.data);
    Entry { file, text, span: span(node), key, line: line(node), value }
}

fn span(node: &Node) -> (usize, usize) {
    (node.span.start.index(), node.span.end.index())
}

fn line(node: &Node) -> usize {
    node.span.start.line().max(1)
}

impl<'a> Entry<'a> {
    /// The file that contains it.
    pub(super) fn file(&self) -> &'a Path {
        self.file
    }

    /// An error about this value.
    pub(super) fn refuse(&self, reason: impl std::fmt::Display) -> ConfigError {
        let path = self.file.to_owned();
        let reason = match self.key.as_str() {
            "" => reason.to_string(),
            key => format!("{key}: {reason}"),
        };
        ConfigError::Content { path, line: self.line, reason }
    }

    /// A message about this value that is not an error.
    pub(super) fn about(&self, what: impl std::fmt::Display) -> String {
        self.refuse(what).to_string()
    }

    /// Whether the key has no value.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            YamlData::Value(Scalar::Null) => true,
            YamlData::Value(Scalar::String(text)) => text.is_empty(),
            _ => false,
        }
    }

    /// A text. Numbers and booleans count as texts, as they are written.
    pub(super) fn text(&self) -> Result<Cow<'a, str>, ConfigError> {
        match self.value {
            YamlData::Value(Scalar::String(text)) => Ok(Cow::Borrowed(text)),
            YamlData::Value(Scalar::Null) => Ok(Cow::Borrowed("")),
            YamlData::Value(scalar) => written(self.text, self.span, scalar)
                .map(Cow::Owned)
                .ok_or_else(|| self.refuse("must be a text: put it between quotes")),
            _ => Err(self.refuse("must be a text")),
        }
    }

    /// A boolean, also in the words of YAML 1.1, as in Prometheus.
    pub(super) fn switch(&self) -> Result<bool, ConfigError> {
        match self.value {
            YamlData::Value(Scalar::Boolean(is)) => Ok(*is),
            YamlData::Value(Scalar::String(word)) if YES.contains(&&**word) => Ok(true),
            YamlData::Value(Scalar::String(word)) if NO.contains(&&**word) => Ok(false),
            _ => Err(self.refuse("must be true or false")),
        }
    }

    /// The items of a list; empty if there is no value.
    pub(super) fn list(&self) -> Result<Vec<Self>, ConfigError> {
        let item = |(number, node): (usize, &'a Node)| Self {
            file: self.file,
            text: self.text,
            span: span(node),
            key: format!("{}[{number}]", self.key),
            line: line(node),
            value: &node.data,
        };
        match self.value {
            YamlData::Sequence(items) => Ok(items.iter().enumerate().map(item).collect()),
            YamlData::Value(Scalar::Null) => Ok(Vec::new()),
            _ => Err(self.refuse("must be a list")),
        }
    }

    /// A mapping with any keys; empty if there is no value.
    pub(super) fn entries(&self) -> Result<Entries<'a>, ConfigError> {
        let mapping = match self.value {
            YamlData::Mapping(mapping) => mapping,
            YamlData::Value(Scalar::Null) => return Ok(Vec::new()),
            _ => return Err(self.refuse("must have keys and values")),
        };
        let (mut entries, mut names) = (Vec::new(), BTreeSet::new());
        for (key, node) in mapping {
            let at = Self { line: line(key), ..self.clone() };
            let name = match &key.data {
                YamlData::Value(Scalar::String(name)) => Some(name.to_string()),
                YamlData::Value(Scalar::Null) => None,
                YamlData::Value(scalar) => written(self.text, span(key), scalar),
                _ => None,
            };
            let refused = "has a key that is no text: put it between quotes";
            let name = name.ok_or_else(|| at.refuse(refused))?;
            // For YAML the text "1" and the number 1 are two keys.
            if !names.insert(name.clone()) {
                return Err(at.refuse(twice(&name)));
            }
            let key = match self.key.as_str() {
                "" => name.clone(),
                above => format!("{above}.{name}"),
            };
            entries.push((name, Self { key, value: &node.data, span: span(node), ..at }));
        }
        Ok(entries)
    }

    /// A mapping with only known keys.
    pub(super) fn table(&self, known: &[Key]) -> Result<Table<'a>, ConfigError> {
        let entries = self.entries()?;
        match entries.iter().find(|(name, _)| !known.iter().any(|key| key.name == name)) {
            None => Ok(Table { entries }),
            Some((name, entry)) => Err(entry.unknown(name, known)),
        }
    }

    /// The error about a key that is not known.
    fn unknown(&self, name: &str, known: &[Key]) -> ConfigError {
        ConfigError::UnknownKey {
            path: PathBuf::from(self.file),
            line: self.line,
            key: self.key.clone(),
            similar: nearest(name, known.iter().map(|key| key.name.to_owned())),
        }
    }
}

/// A number or a boolean as it is written; `None` if the text is something else, such as an alias.
fn written(text: &str, (start, end): (usize, usize), scalar: &Scalar<'_>) -> Option<String> {
    let written: String = text.chars().skip(start).take(end.saturating_sub(start)).collect();
    let written = written.trim();
    (Scalar::parse_from_cow(Cow::Borrowed(written)) == *scalar).then(|| written.to_owned())
}

/// A mapping whose keys are known.
pub(super) struct Table<'a> {
    entries: Entries<'a>,
}

impl<'a> Table<'a> {
    /// The value of a key, unless it is missing or empty.
    pub(super) fn get(&self, key: &str) -> Option<&Entry<'a>> {
        let found = self.entries.iter().find(|(name, _)| name == key);
        found.map(|(_, entry)| entry).filter(|entry| !entry.is_empty())
    }
}
