//! How much memory and log the process may take, and how long samples are kept.

use super::super::bounds::{ANY, size};
use super::super::setting::Form::Quantity;
use super::super::setting::{DURATION, SIZE, Setting, live, setting};

/// Settings of memory, the log and retention.
pub(super) const SETTINGS: &[Setting] = &[
    setting("memory-limit", Quantity("SIZE|PERCENT"), Some("60%")).help(
        "Memory that the process may take: near it new series, large queries and then \
         writes are refused; a part is of the machine or of the control group",
    ),
    setting("flush-interval", DURATION, Some("2h")).help(
        "How often samples go from the log to the store; to Cassandra they go spread over \
         half of that, unless it is urgent",
    ),
    setting("shutdown-timeout", DURATION, Some("25s")).help(
        "Longest time of a stop: up to half of it for requests under way, the rest for the \
         last flush; what is not in the store by then stays in the log, and the next start \
         reads it back",
    ),
    setting("wal-limit", SIZE, Some("8GiB"))
        .help("Largest log; beyond this size writes are refused")
        .within(size(64 << 20, ANY)),
    setting("flush-memory", SIZE, None)
        .help(
            "Points in memory, about, that make a flush begin early; at four times that writes \
             are refused; an eighth of --memory-limit, at most 512MiB",
        )
        .within(size(16 << 20, ANY)),
    live("retention", DURATION, Some("0")).help(
        "How long samples are kept; 0 = for ever (embedded: whole partitions; Cassandra: \
         TTL)",
    ),
];
