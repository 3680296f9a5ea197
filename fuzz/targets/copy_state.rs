//! The progress file of a copy: any bytes are read or refused; from what is read the copy resumes
//! and ends without a panic.
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use promkairos::api::proto::v1;
use promkairos::copy::state::{decode, encode};
use promkairos::copy::{
    Copier, CopyError, Endpoint, Job, JobText, Progress, Selector, Starts, StoreEndpoint,
};
use promkairos::model::{Matcher, TimeLimits, TimeRange};
use promkairos::storage::SharedStore;
use promkairos::storage::memory::MemoryStore;
use tokio::runtime::{Builder, Runtime};

use super::{dataset, evaluation};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_time().build().expect("a runtime"));
/// A few series of one day.
static SOURCE: LazyLock<SharedStore> = LazyLock::new(|| {
    let timeseries = dataset::series(1).into_iter().take(4).map(|mut one| {
        one.samples.truncate(3);
        one
    });
    let timeseries: Vec<v1::TimeSeries> = timeseries.collect();
    RUNTIME.block_on(evaluation::store_of(timeseries))
});

/// The instances of the series. Each is selected, and has three points.
const INSTANCES: [&str; 2] = ["0", "1"];

/// The progress, in JSON.
pub(crate) fn check(data: &[u8]) {
    let text = |text: &str| text.to_owned();
    let selectors = INSTANCES.map(selector).map(|selector| selector.text);
    let times = (dataset::START - 86_400_000, dataset::START + 86_400_000);
    let job = JobText { from: text("a"), to: text("b"), selectors: selectors.to_vec(), times };
    let _ = decode(data, &job);
    let start = encode(&Progress::default(), &job).expect("JSON");
    let head = String::from_utf8(start).expect("JSON is UTF-8");
    let (head, _) = head.rsplit_once(",\"progress\":").expect("two parts");
    let file = [head.as_bytes(), b",\"progress\":", data, b"}"].concat();
    let Ok(mut progress) = decode(&file, &job) else { return };
    let again = encode(&progress, &job).expect("JSON");
    assert_eq!(decode(&again, &job).as_ref(), Ok(&progress));
    let other = JobText { times: (0, 1), ..job };
    decode(&again, &other).expect_err("another copy");
    go_on(&mut progress, times);
}

fn selector(instance: &str) -> Selector {
    let text = format!("{{instance=\"{instance}\"}}");
    Selector { text, matchers: vec![Matcher::equal("instance", instance)] }
}

fn go_on(progress: &mut Progress, times: (i64, i64)) {
    let side = |name: &str, store: SharedStore| StoreEndpoint {
        name: name.to_owned(),
        store,
        starts: Starts::All,
    };
    let copier = Copier {
        from: Endpoint::Store(side("a", SOURCE.clone())),
        to: side("b", Arc::new(MemoryStore::new())),
        job: Job {
            selectors: INSTANCES.map(selector).to_vec(),
            range: TimeRange::new(times.0, times.1),
        },
        at_once: 2,
        patience: Duration::ZERO,
        times: TimeLimits::default(),
    };
    let is_start = *progress == Progress::default();
    match RUNTIME.block_on(copier.copy(progress, |_, _| Ok(()))) {
        Ok(()) => assert!(progress.is_done),
        // Label names that no series can have.
        Err(error) => assert!(matches!(error, CopyError::State(_)), "{error}"),
    }
    if is_start {
        assert_eq!(progress.totals.points(), 6);
    }
    let _ = progress.totals.points();
}
