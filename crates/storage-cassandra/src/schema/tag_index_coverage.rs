//! The record of the tag index in a keyspace, for processes that take no part: read once, never
//! acted by or changed.

use scylla::client::session::Session;

use crate::cql::once;
use crate::options::Keyspace;
use crate::schema::tag_index_document::{
    DOCUMENT, DOCUMENT_KEY, Document, Entry, SERVICE, TagState,
};
use promkairos_storage::Result;

/// The record as it was read.
#[derive(Debug, Default)]
pub(crate) struct Coverage(Document);

impl Coverage {
    /// Reads the record; it is empty where no adapter has indexed yet.
    pub(crate) async fn read(session: &Session, keyspace: &Keyspace) -> Result<Self> {
        let cql = format!(
            "SELECT value FROM {} WHERE service = ? AND service_key = ? AND key = ?",
            keyspace.table("service_index")
        );
        let values = (SERVICE, DOCUMENT, DOCUMENT_KEY);
        let found: Vec<(Option<String>,)> = once::rows(session, &cql, values).await?;
        let Some((Some(text),)) = found.first() else { return Ok(Self::default()) };
        Document::parse(text).map(Self)
    }

    /// Whether nothing is recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.metrics.is_empty()
    }

    /// Whether adapters write rows of a tag. They are written before the rows of `row_keys`.
    pub(crate) fn is_written(&self, metric: &str, tag: &str) -> bool {
        self.0.entries(metric, tag).next().is_some()
    }

    /// Whether every series of a window must have rows of a tag, including windows in which an
    /// audit found a gap; none = nothing is recorded of the tag.
    pub(crate) fn demands(&self, metric: &str, tag: &str, row_time: i64) -> Option<bool> {
        let demands = |covered: Option<bool>, (_, _, entry): (&str, &str, &Entry)| {
            let is_kept = matches!(entry.state, TagState::Building | TagState::Readable);
            let is_since = entry.from.is_some_and(|from| row_time >= from);
            Some(covered.unwrap_or(false) || is_kept && is_since)
        };
        self.0.entries(metric, tag).fold(None, demands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_decides_and_a_known_gap_is_one() {
        let text = "{\"format\":1,\"version\":7,\"metrics\":{\"m\":{\"host\":\
                    {\"state\":\"readable\",\"since\":5,\"from\":100,\"gaps\":[200]},\"dc\":\
                    {\"state\":\"retiring\",\"since\":5,\"from\":100}}}}";
        let coverage = Coverage(Document::parse(text).expect("valid"));
        for (tag, row_time, want) in [
            ("host", 99, Some(false)),
            ("host", 100, Some(true)),
            ("host", 200, Some(true)),
            ("dc", 100, Some(false)),
            ("job", 100, None),
        ] {
            assert_eq!(coverage.demands("m", tag, row_time), want, "{tag} {row_time}");
            assert_eq!(coverage.is_written("m", tag), want.is_some(), "{tag}");
        }
    }
}
