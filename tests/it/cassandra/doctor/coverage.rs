//! The recorded coverage of the tag index in the keyspace decides which rows the tag index must have.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use promkairos::model::{Matcher, TimeRange};
use promkairos::storage::Store;
use promkairos::storage::cassandra::doctor::{Kind, Settings};
use promkairos::storage::cassandra::{Options, TagIndexOptions, WindowPath};
use scylla::value::CqlTimestamp;

use super::super::keyspace::{Request, TestKeyspace, labels, named, read};
use super::defects::{self, stamp};
use super::{WIDTH, examine, examine_with, fill, fixing, left, settings};
use crate::support;

/// Existing rows do not show that all rows are missing, or that the index began half way.
#[tokio::test]
async fn the_recorded_coverage_says_which_tags_must_lead_to_data() {
    let keyspace = TestKeyspace::new().await;
    let before = keyspace.open().await;
    let old = fill(&before, "old").await;
    before.close().await.expect("closes");
    let tag_index = TagIndexOptions {
        metrics: [("new".into(), ["host".into()].into()), ("old".into(), ["host".into()].into())]
            .into(),
        refresh: Duration::from_millis(50),
        ..TagIndexOptions::default()
    };
    let options = Options { tag_index, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    support::eventually("both are readable", async || {
        let status = store.tag_index_status().await.map_err(|error| error.to_string())?;
        let is_open = status.tags.len() == 2 && status.tags.iter().all(|t| t.state == "readable");
        if is_open { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    fill(&store, "new").await;
    // The index has one series of a window before the coverage.
    defects::index_tags(&keyspace, &old[0], WIDTH).await;
    assert!(examine(&keyspace, settings()).await.findings.is_empty());
    // Nothing of the metric is left in the index.
    let pairs: Vec<(CqlTimestamp, String)> = keyspace
        .rows(
            "SELECT row_time, single_tag_pair FROM {k}.tag_indexed_row_keys WHERE metric = 'new' \
             AND table_name = 'data_points' ALLOW FILTERING",
        )
        .await;
    assert!(pairs.len() >= 9, "{pairs:?}");
    let before = stamp();
    while stamp() == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for (time, pair) in &pairs {
        let cql = format!(
            "DELETE FROM {{k}}.tag_indexed_row_keys USING TIMESTAMP {before} WHERE metric = 'new' \
             AND table_name = 'data_points' AND row_time = ? AND single_tag_pair = ?"
        );
        keyspace.cql_with(&cql, (time, pair)).await;
    }
    let report = examine(&keyspace, settings()).await;
    let want = BTreeMap::from([("new".to_owned(), BTreeSet::from([Kind::TagIndexGap]))]);
    assert_eq!(left(&report), want, "{report:#?}");
    let found = report.total(Kind::TagIndexGap).map(|total| total.found);
    assert_eq!(found, Some(pairs.len() as u64));
    assert_eq!(left(&examine(&keyspace, fixing()).await), BTreeMap::new());
    assert!(examine(&keyspace, settings()).await.findings.is_empty());
    drop(store);
    keyspace.drop().await;
}

/// The index of a metric that already has data is empty at first.
#[tokio::test]
async fn configured_tags_must_lead_to_data_where_nothing_is_recorded() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    for metric in ["listed", "other"] {
        fill(&store, metric).await;
    }
    let configured = |tag: &str| {
        let metrics = [("listed".to_owned(), [tag.to_owned()].into())].into();
        let tag_index = TagIndexOptions { metrics, ..TagIndexOptions::default() };
        Options { tag_index, ..keyspace.options() }
    };
    assert!(examine(&keyspace, settings()).await.findings.is_empty());
    assert!(examine_with(configured("dc"), settings()).await.findings.is_empty());
    let report = examine_with(configured("host"), settings()).await;
    let want = BTreeMap::from([("listed".to_owned(), BTreeSet::from([Kind::TagIndexGap]))]);
    assert_eq!(left(&report), want, "{report:#?}");
    // KairosDB needs three series in four windows.
    assert_eq!(report.findings[&Kind::TagIndexGap]["listed"].found, 12, "{report:#?}");
    assert_eq!(left(&examine_with(configured("host"), fixing()).await), BTreeMap::new());
    assert!(examine_with(configured("host"), fixing()).await.findings.is_empty());
    keyspace.drop().await;
}

/// Readers rely on the tag index where it covers a window, whoever wrote its rows.
#[tokio::test]
async fn what_a_mend_makes_findable_is_found_by_its_tags() {
    let keyspace = TestKeyspace::new().await;
    let before = keyspace.open().await;
    let hidden = labels(&[("__name__", "hidden"), ("host", "b:1")]);
    Request::default().floats(&hidden, &[(10, 1.0)]).write(&before).await;
    before.close().await.expect("closes");
    // Without time index rows nothing says that a window exists which the index must not cover.
    defects::no_time(&keyspace, "hidden", &[]).await;
    let host = || ["host".to_owned()].into();
    let tag_index = TagIndexOptions {
        metrics: [("lost".to_owned(), host()), ("hidden".to_owned(), host())].into(),
        refresh: Duration::from_millis(50),
        ..TagIndexOptions::default()
    };
    let options = Options { tag_index, series_cache_bytes: 0, ..keyspace.options() };
    let store = keyspace.open_with(options).await;
    fill(&store, "lost").await;
    // A batch of index rows that never arrived.
    defects::no_row_key(&keyspace, "lost", &[]).await;
    let cql = format!(
        "DELETE FROM {{k}}.tag_indexed_row_keys USING TIMESTAMP {{now}} WHERE metric = 'lost' \
         AND table_name = 'data_points' AND row_time = {WIDTH} AND single_tag_pair = 'host=b:1'"
    );
    defects::delete(&keyspace, &cql).await;
    for (metric, at, kind) in
        [("lost", WIDTH + 1, Kind::UnindexedData), ("hidden", 10, Kind::MissingTimeIndex)]
    {
        let matchers = [named(metric), vec![Matcher::equal("host", "b:1")]].concat();
        let range = TimeRange::new(at, at);
        assert_eq!(read(&store, &matchers, range).await.len(), 0, "{metric}");
        let settings = Settings { fix: [kind].into(), ..settings() };
        let report = examine(&keyspace, settings).await;
        assert_eq!(left(&report).get(metric), None, "{report:#?}");
        let explanation = store.explain(&matchers, range).await.expect("an explanation");
        let window = explanation.windows.iter().find(|w| w.table_name == "data_points");
        let paths = window.map(|window| &window.paths[..]);
        assert!(matches!(paths, Some([WindowPath::TagIndex { .. }])), "{metric}: {paths:?}");
        assert_eq!(read(&store, &matchers, range).await.len(), 1, "{metric}");
    }
    drop(store);
    keyspace.drop().await;
}
