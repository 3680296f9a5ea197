//! The next step of the recorded state, as far as the running adapters allow it. Pure.
//!
//! A tag is written before it is read, and no longer read before it is no longer written. Each step
//! waits until every running adapter acts by the previous one.

use std::collections::BTreeSet;

use crate::schema::tag_index_document::{
    ALL, Adapter, Configured, Document, Entry, TagState, pairs,
};

/// The document after configured tags were added and tags that no adapter configures were retired.
/// None when nothing is to be done.
pub(crate) fn next(
    document: &Document,
    adapters: &[Adapter],
    configured: &Configured,
) -> Option<Document> {
    let mut next = document.clone();
    next.version += 1;
    let version = next.version;
    for (metric, tag) in pairs(configured) {
        let tags = next.metrics.entry(metric.to_owned()).or_default();
        let entry = tags.entry(tag.to_owned()).or_insert_with(|| Entry::new(version));
        if entry.state == TagState::Retiring {
            *entry = Entry::new(version);
        }
    }
    let wanted: BTreeSet<(&str, &str)> = adapters
        .iter()
        .map(|adapter| &adapter.configured)
        .chain([configured])
        .flat_map(pairs)
        .collect();
    for (metric, tags) in &mut next.metrics {
        tags.retain(|tag, entry| {
            // An entry of one metric, which a build made, exists beside an entry for all.
            let names = [(metric.as_str(), tag.as_str()), (metric, ALL), (ALL, tag), (ALL, ALL)];
            if names.iter().any(|name| wanted.contains(name)) {
                return true;
            }
            match entry.state {
                // No reader has used it yet.
                TagState::Writing => return false,
                TagState::Retiring => return !have_all_seen(adapters, entry.since),
                TagState::Building | TagState::Readable => {
                    let gaps = std::mem::take(&mut entry.gaps);
                    *entry = Entry { state: TagState::Retiring, since: version, from: None, gaps };
                }
            }
            true
        });
    }
    next.metrics.retain(|_, tags| !tags.is_empty());
    (next.metrics != document.metrics).then_some(next)
}

/// The tags that every running adapter writes and that can be opened for readers, with their metrics.
pub(crate) fn openings(document: &Document, adapters: &[Adapter]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (metric, tags) in &document.metrics {
        for (tag, entry) in tags {
            if entry.state == TagState::Writing && have_all_seen(adapters, entry.since) {
                found.push((metric.clone(), tag.clone()));
            }
        }
    }
    found
}

/// Whether every running adapter acts by this version or a later one.
pub(crate) fn have_all_seen(adapters: &[Adapter], version: u64) -> bool {
    !adapters.is_empty() && adapters.iter().all(|adapter| adapter.seen >= version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tag_index_document::FORMAT;

    fn configured(list: &[(&str, &[&str])]) -> Configured {
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
        list.iter().map(|(metric, list)| ((*metric).to_owned(), tags(list))).collect()
    }

    fn adapter(seen: u64, list: &[(&str, &[&str])]) -> Adapter {
        Adapter { format: FORMAT, seen, configured: configured(list) }
    }

    fn state(document: &Document) -> Vec<(String, &'static str, u64)> {
        let tags = document.metrics.iter().flat_map(|(metric, tags)| {
            tags.iter().map(move |(tag, e)| (format!("{metric}/{tag}"), e.state.as_str(), e.since))
        });
        tags.collect()
    }

    #[test]
    fn a_tag_is_opened_when_all_write_it() {
        let mine: &[(&str, &[&str])] = &[("m", &["host"]), ("n", &[])];
        let first = next(&Document::default(), &[adapter(0, mine)], &configured(mine));
        let first = first.expect("something new");
        let want = [("m/host".into(), "writing", 1), ("n/*".into(), "writing", 1)];
        assert_eq!((first.version, state(&first)), (1, want.to_vec()));
        assert_eq!(next(&first, &[adapter(0, mine)], &configured(mine)), None);
        assert_eq!(openings(&first, &[adapter(1, mine), adapter(0, &[])]), []);
        assert_eq!(openings(&first, &[]), [], "an adapter that sees nobody is not there itself");
        assert_eq!(openings(&first, &[adapter(1, mine), adapter(1, &[])]).len(), 2);
    }

    #[test]
    fn a_tag_that_nobody_wants_is_retired_first() {
        let mine: &[(&str, &[&str])] = &[("m", &["host"])];
        let mut open = next(&Document::default(), &[], &configured(mine)).expect("new");
        let entry = open.entry_mut("m", "host").expect("there");
        (entry.state, entry.from) = (TagState::Readable, Some(0));
        let another = [adapter(1, &[]), adapter(1, mine)];
        assert_eq!(next(&open, &another, &configured(&[])), None, "another one wants it");
        let alone = [adapter(1, &[]), adapter(1, &[])];
        let retiring = next(&open, &alone, &configured(&[])).expect("retired");
        assert_eq!(state(&retiring), [("m/host".into(), "retiring", 2)]);
        assert!(!retiring.covers("m", "host", 0) && retiring.written("m").is_some());
        let late = [adapter(2, &[]), adapter(1, &[])];
        assert_eq!(next(&retiring, &late, &configured(&[])), None);
        let seen = [adapter(2, &[]), adapter(2, &[])];
        let gone = next(&retiring, &seen, &configured(&[])).expect("gone");
        assert!(gone.metrics.is_empty());
        let again = next(&retiring, &seen, &configured(mine)).expect("wanted again");
        assert_eq!(state(&again), [("m/host".into(), "writing", 3)]);
    }
}
