//! The record of the tag index in a keyspace, as JSON in `service_index`.
//!
//! One document lists which (metric, tag) is written and for which row times it can be relied on.
//! It is replaced as a whole, and only if it is still the one that was read. Each running adapter
//! has a row that expires, with the version of the document that it acts by. See docs/FORMAT.md.
//! Pure; no other file knows the layout.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use promkairos_kairos::index::IndexedTags;
use promkairos_storage::{Result, StoreError};

/// `service` of all rows.
pub(crate) const SERVICE: &str = "prometheus";
/// `service_key` of the document.
pub(crate) const DOCUMENT: &str = "tag_index";
/// `key` of the document.
pub(crate) const DOCUMENT_KEY: &str = "state";
/// `service_key` of the adapters.
pub(crate) const ADAPTERS: &str = "tag_index_adapters";
/// `service_key` of builds and drops; `key` is the metric.
pub(crate) const JOBS: &str = "tag_index_jobs";

/// The name for all metrics, and for all tags.
pub(crate) const ALL: &str = "*";
/// The version of this layout.
pub(crate) const FORMAT: u32 = 1;

/// Configured tags by metric; `*` as in KairosDB, and no tags = all.
pub(crate) type Configured = BTreeMap<String, BTreeSet<String>>;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub(crate) format: u32,
    /// Rises by one with every change.
    pub(crate) version: u64,
    /// Metric, tag, entry.
    pub(crate) metrics: BTreeMap<String, BTreeMap<String, Entry>>,
}

/// One tag of one metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) state: TagState,
    /// The version that set this state.
    pub(crate) since: u64,
    /// Every series of a window from this row time on is indexed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<i64>,
    /// Windows after `from` for which that is not true.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) gaps: BTreeSet<i64>,
}

/// The state of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TagState {
    /// Adapters write its rows; none reads them yet.
    Writing,
    /// Read like `Readable`; older windows are being filled.
    Building,
    /// Read where it covers.
    Readable,
    /// Still written, no longer read, soon removed.
    Retiring,
}

impl TagState {
    pub(crate) const ALL: [Self; 4] =
        [Self::Writing, Self::Building, Self::Readable, Self::Retiring];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Writing => "writing",
            Self::Building => "building",
            Self::Readable => "readable",
            Self::Retiring => "retiring",
        }
    }
}

/// A running adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adapter {
    pub(crate) format: u32,
    /// All its earlier writes and reads have ended; those since act by this version.
    pub(crate) seen: u64,
    pub(crate) configured: Configured,
}

impl Entry {
    /// A tag that is written from this version on.
    pub(crate) fn new(since: u64) -> Self {
        Self { state: TagState::Writing, since, from: None, gaps: BTreeSet::new() }
    }

    fn covers(&self, row_time: i64) -> bool {
        matches!(self.state, TagState::Building | TagState::Readable)
            && self.from.is_some_and(|from| row_time >= from)
            && !self.gaps.contains(&row_time)
    }
}

impl Default for Document {
    fn default() -> Self {
        Self { format: FORMAT, version: 0, metrics: BTreeMap::new() }
    }
}

impl Document {
    /// The document with this text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        decode(text).map_err(|error| {
            StoreError::Invalid(format!("the state of the tag index in service_index: {error}"))
        })
    }

    /// How many tags are in a state.
    pub(crate) fn count(&self, state: TagState) -> usize {
        self.metrics.values().flat_map(BTreeMap::values).filter(|tag| tag.state == state).count()
    }

    /// The tags of a metric whose rows every adapter writes; None when there are none.
    pub(crate) fn written(&self, metric: &str) -> Option<IndexedTags> {
        let mut tags = [metric, ALL]
            .into_iter()
            .filter_map(|metric| self.metrics.get(metric))
            .flat_map(BTreeMap::keys)
            .peekable();
        tags.peek()?;
        let tags: BTreeSet<Box<str>> = tags.map(|tag| tag.as_str().into()).collect();
        Some(if tags.contains(ALL) { IndexedTags::All } else { IndexedTags::Only(tags) })
    }

    /// Whether the rows of a tag lead to every series of a window that has the tag.
    pub(crate) fn covers(&self, metric: &str, tag: &str, row_time: i64) -> bool {
        self.entries(metric, tag).any(|(_, _, entry)| entry.covers(row_time))
    }

    /// The entries that apply to a tag, with their metric and tag.
    pub(crate) fn entries<'a>(
        &'a self,
        metric: &'a str,
        tag: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str, &'a Entry)> {
        [metric, ALL].into_iter().flat_map(move |metric| {
            let tags = self.metrics.get(metric);
            [tag, ALL].into_iter().filter_map(move |tag| Some((metric, tag, tags?.get(tag)?)))
        })
    }

    /// The entry of a tag, if any.
    pub(crate) fn entry_mut(&mut self, metric: &str, tag: &str) -> Option<&mut Entry> {
        self.metrics.get_mut(metric)?.get_mut(tag)
    }

    /// Takes a window out of use, wherever it counts as covered. Returns whether anything changed.
    pub(crate) fn add_gap(&mut self, metric: &str, tag: &str, row_time: i64) -> bool {
        let mut changed = false;
        for (metric, tag) in [(metric, tag), (metric, ALL), (ALL, tag), (ALL, ALL)] {
            if let Some(entry) = self.entry_mut(metric, tag).filter(|e| e.covers(row_time)) {
                changed |= entry.gaps.insert(row_time);
            }
        }
        changed
    }

    /// Whether both make adapters write the same rows.
    pub(crate) fn writes_like(&self, other: &Self) -> bool {
        let written = |document: &Self| -> BTreeMap<String, Vec<String>> {
            let tags = |(metric, tags): (&String, &BTreeMap<String, Entry>)| {
                (metric.clone(), tags.keys().cloned().collect())
            };
            document.metrics.iter().map(tags).collect()
        };
        written(self) == written(other)
    }
}

/// Whether a configuration has a tag of a metric.
pub(crate) fn has_tag(configured: &Configured, metric: &str, tag: &str) -> bool {
    let mut lists = [metric, ALL].into_iter().filter_map(|metric| configured.get(metric));
    lists.any(|tags| tags.is_empty() || tags.contains(ALL) || tags.contains(tag))
}

/// Tags of a configuration by metric and tag, `*` for all.
pub(crate) fn pairs(configured: &Configured) -> impl Iterator<Item = (&str, &str)> {
    configured.iter().flat_map(|(metric, tags)| {
        let all = tags.is_empty().then_some(ALL);
        tags.iter().map(String::as_str).chain(all).map(move |tag| (metric.as_str(), tag))
    })
}

/// Decodes a document; a later format is refused.
pub fn decode<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let found: Format = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if found.format != FORMAT {
        return Err(format!("format {} is not known", found.format));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Encodes a document.
pub fn encode(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("names and numbers are JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(entries: &[(&str, &str, TagState, Option<i64>)]) -> Document {
        let mut document = Document::default();
        for (metric, tag, state, from) in entries {
            let entry = Entry { state: *state, since: 1, from: *from, gaps: BTreeSet::new() };
            document.metrics.entry((*metric).into()).or_default().insert((*tag).into(), entry);
        }
        document
    }

    #[test]
    fn what_is_written_and_what_is_covered() {
        let document = document(&[
            ("m", "host", TagState::Readable, Some(100)),
            ("m", "dc", TagState::Writing, None),
            ("n", ALL, TagState::Building, Some(0)),
            ("o", "x", TagState::Retiring, Some(0)),
        ]);
        let only =
            |tags: &[&str]| IndexedTags::Only(tags.iter().map(|tag| (*tag).into()).collect());
        assert_eq!(document.written("m"), Some(only(&["dc", "host"])));
        assert_eq!(document.written("n"), Some(IndexedTags::All));
        assert_eq!(document.written("o"), Some(only(&["x"])));
        assert_eq!(document.written("p"), None);
        for (metric, tag, row_time, want) in [
            ("m", "host", 100, true),
            ("m", "host", 99, false),
            ("m", "dc", 100, false),
            ("n", "any", 0, true),
            ("o", "x", 0, false),
            ("p", "host", 100, false),
        ] {
            assert_eq!(document.covers(metric, tag, row_time), want, "{metric} {tag} {row_time}");
        }
    }

    #[test]
    fn a_gap_takes_one_window_out_of_use() {
        let mut document = document(&[
            (ALL, ALL, TagState::Readable, Some(i64::MIN)),
            ("m", "host", TagState::Readable, Some(50)),
        ]);
        assert!(document.covers("m", "host", 100));
        assert!(document.add_gap("m", "host", 100) && !document.add_gap("m", "host", 100));
        assert!(!document.covers("m", "host", 100) && document.covers("m", "host", 200));
        assert!(!document.covers("n", "host", 100), "it stands for all metrics");
    }

    #[test]
    fn the_layout_on_the_page() {
        let text = "{\"format\":1,\"version\":7,\"metrics\":{\"up\":{\"instance\":\
                    {\"state\":\"readable\",\"since\":5,\"from\":1814400000,\"gaps\":[3628800000]}}}}";
        let read: Document = decode(text).expect("valid");
        assert_eq!(encode(&read), text);
        assert!(read.covers("up", "instance", 1_814_400_000));
        assert!(!read.covers("up", "instance", 3_628_800_000));
        let text = "{\"format\":1,\"seen\":7,\"configured\":{\"*\":[],\"up\":[\"instance\"]}}";
        let read: Adapter = decode(text).expect("valid");
        assert_eq!(encode(&read), text);
        let of: Vec<_> = pairs(&read.configured).collect();
        assert_eq!(of, [(ALL, ALL), ("up", "instance")]);
        let later = decode::<Document>("{\"format\":2}");
        assert_eq!(later.err().as_deref(), Some("format 2 is not known"));
    }
}
