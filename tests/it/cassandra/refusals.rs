//! What the schema or Cassandra refuses.

use promkairos::model::TimeRange;

use super::keyspace::{Request, TestKeyspace, labels, named, read};

#[tokio::test]
async fn a_histogram_without_a_cell_is_refused_alone() {
    let keyspace = TestKeyspace::new().await;
    let store = keyspace.open().await;
    let up = labels(&[("__name__", "up")]);
    let mut misshapen = super::points::integer();
    misshapen.positive_spans.clear();
    let request = Request::default()
        .floats(&up, &[(1, 1.0)])
        .histogram(&up, 2, misshapen)
        .histogram(&up, 3, super::points::integer());
    let outcome = request.write(&store).await;
    assert_eq!((outcome.samples, outcome.histograms), (1, 1));
    let rejection = outcome.rejections.kept()[0].to_string();
    assert!(rejection.contains("spans") && rejection.contains("up"), "{rejection}");
    let all = read(&store, &named("up"), TimeRange::ALL).await;
    assert_eq!(all[&up].iter().map(|point| point.timestamp).collect::<Vec<_>>(), [1, 3]);
    keyspace.drop().await;
}
