//! Answers of Prometheus' HTTP API, as `copy` receives them: any bytes are read or refused, and
//! what is read is bounded by them.
use promkairos::copy::answers;

pub(crate) fn check(data: &[u8]) {
    let _ = answers::is_any_listed(data);
    if let Some(series) = answers::exemplars(data) {
        let exemplars = series.iter().flat_map(|(_, exemplars)| exemplars);
        let held: usize = exemplars.map(|exemplar| exemplar.labels.as_bytes().len() + 1).sum();
        let labels: usize = series.iter().map(|(labels, _)| labels.as_bytes().len()).sum();
        assert!(held + labels <= data.len(), "{held} and {labels} of {}", data.len());
    }
    if let Some(families) = answers::metadata(data) {
        let texts = families.iter().map(|(name, one)| name.len() + one.help.len() + one.unit.len());
        let held: usize = texts.sum();
        assert!(held <= data.len(), "{held} of {}", data.len());
    }
    let _ = answers::why(&String::from_utf8_lossy(data));
}
