//! Remote write: any message decodes or is refused, and a replay decodes to the same batch.

use promkairos::limits::LABEL_LIMITS;
use promkairos::model::{Body, Protocol, WriteBatch};
use promkairos::wire::{self, Policy, Scratch, snappy};

/// A message of 1.0.
pub(crate) fn check_v1(data: &[u8]) {
    check(Protocol::V1, data);
}

/// A message of 2.0.
pub(crate) fn check_v2(data: &[u8]) {
    check(Protocol::V2, data);
    check(Protocol::V2Typed, data);
}

fn check(protocol: Protocol, message: &[u8]) {
    let compressed = snappy::compress(message).expect("a short message");
    let body = Body { protocol, compressed: &compressed };
    let (mut first, mut second) = (Scratch::default(), Scratch::default());
    let Ok(accepted) = wire::decode(body, &mut first, Policy::Accept) else { return };
    for series in &accepted.series {
        // Never panics, whatever the labels are.
        let _ = series.labels.to_series(&LABEL_LIMITS);
        let _ = series.labels.describe();
    }
    for histogram in &accepted.histograms {
        histogram.histogram.validate().expect("accepted histograms are valid");
    }
    // A replay leaves out what was refused and nothing else.
    let policy = Policy::Replay(accepted.rejections.targets());
    let replayed = wire::decode(body, &mut second, policy).expect("what was accepted decodes");
    assert_eq!(content(&accepted), content(&replayed));
}

fn content(batch: &WriteBatch<'_>) -> String {
    let WriteBatch { series, samples, histograms, exemplars, metadata, .. } = batch;
    format!("{series:?} {samples:?} {histograms:?} {exemplars:?} {metadata:?}")
}
