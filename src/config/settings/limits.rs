//! The settings that limit connections, requests and series. `crates/model/src/limits.rs` has the maximum of some.

use super::super::bounds::{number, size};
use super::super::setting::Form::Code;
use super::super::setting::{DURATION, N, SIZE, Setting, live, setting};
use crate::limits;

/// Settings of limits of connections, requests and series.
pub(super) const SETTINGS: &[Setting] = &[
    setting("max-connections", N, Some("512")).help(
        "Connections at a time; a further one replaces one without a whole request, else it \
         gets 503, except for health and metrics",
    ),
    setting("max-http2-streams", N, Some("200"))
        .help("Requests of one HTTP/2 connection at a time; its client waits with more"),
    live("max-concurrent-requests", N, Some("4096"))
        .help("Requests answered at a time, except for health and metrics; further ones get 503"),
    setting("http-head-timeout", DURATION, Some("10s"))
        .help("Longest time for the head of a request; then its connection is closed"),
    setting("http-idle-timeout", DURATION, Some("2m"))
        .help("How long a connection may rest between two requests"),
    setting("http-body-timeout", DURATION, Some("30s"))
        .help("Longest time for the body of a request to arrive"),
    setting("http-answer-timeout", DURATION, Some("1m"))
        .help("Longest time that a client may read nothing of its answer; then it is broken off"),
    setting("remote-read-max-concurrency", N, Some("10"))
        .help("Remote reads at a time, a fifth of them without streaming; more wait in line"),
    live("max-request-body-size", SIZE, Some("32MiB"))
        .help("Largest body of a request as received, before it is decompressed")
        .within(size(1 << 10, limits::MAX_BODY_BYTES)),
    live("max-decoded-body-size", SIZE, Some("32MiB"))
        .help("Largest body of a write or a remote read once it is decoded")
        .within(size(1 << 10, limits::MAX_DECODED_BYTES)),
    live("max-series-per-request", N, Some("262144"))
        .help("Series in one write")
        .within(number(limits::MAX_SERIES_PER_REQUEST)),
    live("max-samples-per-request", N, Some("1048576"))
        .help("Floats and histograms in one write")
        .within(number(limits::MAX_SAMPLES_PER_REQUEST)),
    live("max-samples-per-second", N, Some("0"))
        .help("Floats and histograms accepted in a second; further writes get 429; 0 = no limit"),
    live("max-sample-age", DURATION, Some("0")).help(
        "How old a sample or exemplar may be when it is written or copied; older ones are \
         refused; 0 = any age",
    ),
    live("max-sample-lead", DURATION, Some("365d")).help(
        "How far in the future a sample or exemplar may be when it is written or copied; \
         others are refused, such as those with microseconds in the place of milliseconds; 0 = \
         any time",
    ),
    live("max-active-series", N, Some("0"))
        .help("Series written to within the last hour; further ones are refused; 0 = no limit"),
    live("max-active-series-per-metric", N, Some("0"))
        .help("The same for the series of each metric; 0 = no limit"),
    live("max-metadata-size", SIZE, None).help(
        "Names, helps and units of all metric families, and 100 bytes for each; further new \
         ones are refused; a sixteenth of --memory-limit, at most 64MiB",
    ),
    live("series-limit-answer", Code, Some("400"))
        .help(
            "Answer to a series beyond the limits of active series: 400 (its sender continues \
             without it) or 429",
        )
        .one_of(&["400", "429"]),
    live("max-labels-per-series", N, Some("128"))
        .help("Labels of a series, the name included")
        .within(number(limits::LABEL_LIMITS.labels)),
    live("max-label-name-size", SIZE, Some("1KiB"))
        .help("Longest name of a label")
        .within(size(8, limits::LABEL_LIMITS.name_bytes)),
    live("max-label-value-size", SIZE, Some("16KiB"))
        .help("Longest value of a label")
        .within(size(8, limits::LABEL_LIMITS.value_bytes)),
    live("max-labels-size", SIZE, Some("32KiB"))
        .help("All labels of a series together, names and values")
        .within(size(16, limits::LABEL_LIMITS.total_bytes)),
    live("max-label-results", N, Some("500000")).help(
        "Names, values or series in the answer of a label endpoint; a warning says what is \
         cut off",
    ),
    live("max-label-results-size", SIZE, None).help(
        "The same in bytes of one answer, at least 64KiB; more exemplars are an error. A \
         sixteenth of --memory-limit, at most 32MiB and what fits --label-max-concurrency \
         times into half of it",
    ),
    live("label-max-concurrency", N, Some("4")).help(
        "Requests for labels, series, metadata, exemplars and federation answered at a \
         time; more wait",
    ),
    live("label-max-wait", DURATION, Some("10s"))
        .help("How long such a request may wait; then it gets 503"),
];
