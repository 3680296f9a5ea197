//! A frame of an answer to remote read, as `copy` receives it: the decoded size is bounded by its bytes.
use promkairos::wire::read::decode_frame;

pub(crate) fn check(data: &[u8]) {
    let Ok(series) = decode_frame(data) else { return };
    let chunks = series.iter().flat_map(|series| &series.chunks);
    let held: usize = chunks.map(|chunk| chunk.data.len()).sum();
    let labels: usize = series.iter().map(|series| series.labels.len()).sum();
    // The length of a label may have been encoded in more bytes than it needs.
    assert!(held <= data.len() && labels <= 2 * data.len(), "{held}, {labels} of {}", data.len());
}
