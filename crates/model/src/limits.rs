//! Limits of requests and of the server, and limits that several modules must agree on, each with
//! its unit. Exceeding a limit is an error that names it.
//!
//! Some are the default or the maximum of a setting; the settings themselves are in the tables of
//! `src/config/settings/`. Not here: limits of a single module that no request can exceed (such as
//! batch and cache sizes). These are at the head of the module's file.

use std::time::Duration;

use crate::LabelLimits;

/// Connections at a time; a further connection replaces one without a complete request. Below the
/// 1024 file handles that a process usually has, so that the store keeps its own.
pub const MAX_CONNECTIONS: usize = 512;
/// Extra connections for health and metrics alone: enough for probes, and few enough for the file handles.
pub const SPARE_CONNECTIONS: usize = 16;
/// Requests of one HTTP/2 connection at a time.
pub const MAX_HTTP2_STREAMS: u32 = 200;
/// Bytes of the head of a request: path, query and headers. Each header counts [`HEADER_BYTES`] in
/// addition to its name and value, as in HTTP/2.
pub const MAX_HEAD_BYTES: usize = 128 << 10;
/// See [`MAX_HEAD_BYTES`].
pub const HEADER_BYTES: usize = 32;
/// Bytes of the path of a request, for HTTP/2 of path and query: the most that the crate `http` can hold.
pub const MAX_TARGET_BYTES: usize = (u16::MAX - 1) as usize;
/// Headers of a request over HTTP/1: the most that hyper reads without an allocation.
pub const MAX_HEADERS: usize = 100;
/// Bytes of the head of an HTTP/2 request that hyper accepts. Up to this size the server refuses a
/// head itself and explains why; hyper gives no reason.
pub const MAX_READ_HEAD_BYTES: u32 = 4 * MAX_HEAD_BYTES as u32;
/// The end of an error text for a limit that is not a setting.
pub const NO_SETTING: &str = "no setting changes that";
/// Bytes of a refused request's body that are read and dropped, so that the client reads the answer: a connection that
/// is closed during the upload looks broken, and the client repeats the request.
pub const DRAINED_BODY_BYTES: usize = 32 << 20;
/// Longest time for reading [`DRAINED_BODY_BYTES`].
pub const DRAINED_BODY_TIME: Duration = Duration::from_secs(5);
/// Requests that are processed at a time. Far more than a healthy server has in progress, and few
/// enough that their heads take little memory.
pub const MAX_CONCURRENT_REQUESTS: usize = 4096;
/// Connections of KairosDB's telnet protocol.
pub const MAX_TELNET_CONNECTIONS: usize = 1024;
/// Longest time until the head of a request is complete, from its first byte or from the start of the connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request body may take before its connection may be replaced by another that finds no
/// place: longer than a body takes on a healthy network.
pub const BODY_GRACE: Duration = Duration::from_secs(1);
/// How long a connection may be idle between two requests: senders that write once a minute keep theirs.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client may read nothing of an answer before the answer is dropped.
pub const ANSWER_STALL: Duration = Duration::from_secs(60);
/// Replaces [`ANSWER_STALL`] from 80 % of the memory limit on.
pub const TIGHT_ANSWER_STALL: Duration = Duration::from_secs(5);
/// Replaces [`ANSWER_STALL`] from 90 % of the memory limit on.
pub const FULL_ANSWER_STALL: Duration = Duration::from_secs(1);
/// How long a client may read nothing of its answers before its connection may be replaced by
/// another that finds no place, or an answer by another that finds no room.
pub const ANSWER_GRACE: Duration = Duration::from_secs(4);
/// As [`ANSWER_GRACE`], for clients without a login on a server with users or tokens; the connection is always closed.
pub const STRANGER_GRACE: Duration = Duration::from_secs(2);
/// Bytes of an answer that are passed on at a time; small, so that a slow reader makes progress in time.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;
/// How often the files of the web configuration are checked for changes.
pub const WEB_CONFIG_CHECK: Duration = Duration::from_secs(2);
/// How long no connection is accepted after a failed accept: file handles may be short.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a compressed request body.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// Bytes that a snappy block may declare as its decoded length.
pub const MAX_DECODED_BYTES: usize = 32 << 20;
/// Bytes of compressed bodies of one kind in memory at a time, even with a large memory limit.
pub const MAX_BODY_BYTES_IN_FLIGHT: usize = 128 << 20;
/// Estimated bytes of decoded remote-write requests in memory at a time, even with a large memory limit.
pub const MAX_DECODED_BYTES_IN_FLIGHT: usize = 256 << 20;
/// Longest time that a request body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Buffers for decoding that are kept for reuse.
pub const MAX_KEPT_BUFFERS: usize = 16;
/// Maximum bytes of a kept buffer; larger buffers are freed.
pub const MAX_KEPT_BUFFER_BYTES: usize = 4 << 20;
/// When a client should retry after a condition that soon passes: no room, or a store that is away.
pub const RETRY_AFTER: Duration = Duration::from_secs(5);
/// When a client should retry if a log or its memory is full, which only a flush can end.
pub const FULL_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Longest time that a remote-write request waits for memory.
pub const INTAKE_WAIT: Duration = Duration::from_secs(10);
/// Series in one remote-write request.
pub const MAX_SERIES_PER_REQUEST: usize = 1 << 18;
/// Floats and histograms in one remote-write request.
pub const MAX_SAMPLES_PER_REQUEST: usize = 1 << 20;
/// How far in the future a sample may be: far enough for clock differences and planned data, but
/// not for microseconds in place of milliseconds.
pub const MAX_SAMPLE_LEAD: Duration = Duration::from_secs(365 * 24 * 3600);
/// Native histograms in one remote-write request: one can take as little as two bytes of the body.
pub const MAX_HISTOGRAMS_PER_REQUEST: usize = 1 << 17;
/// Exemplars in one remote-write request.
pub const MAX_EXEMPLARS_PER_REQUEST: usize = 1 << 17;
/// Metadata entries in one remote-write request.
pub const MAX_METADATA_PER_REQUEST: usize = 1 << 17;
/// Symbols in one remote-write 2.0 request.
pub const MAX_SYMBOLS_PER_REQUEST: usize = 1 << 20;
/// Bytes of all label sets of a remote-write 2.0 request after its symbols are resolved.
pub const MAX_LABEL_BYTES_PER_REQUEST: usize = 64 << 20;
/// Spans, buckets and bounds of all native histograms of one remote-write request.
pub const MAX_BUCKETS_PER_REQUEST: usize = 1 << 22;
/// Bytes of the help or the name of a metric family.
pub const MAX_METADATA_TEXT_BYTES: usize = 16 << 10;
/// Spans, buckets and bounds in one native histogram, both sides together.
pub const MAX_HISTOGRAM_BUCKETS: usize = 1 << 12;
/// Characters in the labels of an exemplar (remote write 2.0 specification).
pub const MAX_EXEMPLAR_CHARS: usize = 128;
/// Nesting of groups and repetitions in a regular expression.
pub const MAX_REGEX_DEPTH: u32 = 250;
/// Bytes that a compiled regular expression may take.
pub const MAX_REGEX_BYTES: usize = 32 << 20;
/// Bytes that all compiled regular expressions of one request may take; less if memory is small.
pub const MAX_REQUEST_REGEX_BYTES: usize = 64 << 20;
/// Points in a chunk.
pub const MAX_CHUNK_POINTS: usize = 120;
/// Queries in one remote read.
pub const MAX_READ_QUERIES: usize = 256;
/// Matchers in one remote read, over all its queries.
pub const MAX_READ_MATCHERS: usize = 128;
/// Bytes of all patterns of one remote read: parsing takes about a hundred times as much.
pub const MAX_READ_PATTERN_BYTES: usize = 1 << 20;
/// Protobuf fields in one remote read: matchers, hints and all.
pub const MAX_READ_FIELDS: usize = 1 << 16;
/// Remote reads in progress at a time; further ones wait for up to [`READ_WAIT`].
pub const MAX_CONCURRENT_READS: usize = 10;
/// Longest time that a remote read waits for a permit before it is refused with a retry time.
pub const READ_WAIT: Duration = Duration::from_secs(30);
/// One in this number of concurrent reads may have an answer that is complete in memory (SAMPLES).
pub const READS_PER_SAMPLE_READ: usize = 5;
/// Bytes of an answer that is complete in memory, before compression, even with a large memory limit.
pub const MAX_READ_RESPONSE_BYTES: usize = 1 << 30;
/// Bytes of chunks in one frame of a streamed answer; clients refuse frames over 50,000,000.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// Bytes of chunks that a read fetches at a time; a single series may exceed it.
pub const READ_RUN_BYTES: usize = 1 << 20;
/// Series that a read fetches at a time.
pub const READ_RUN_SERIES: usize = 4096;
/// Fetches of a remote read that are in progress at a time.
pub const READ_AHEAD_RUNS: usize = 4;
/// Bytes of the text of a query.
pub const MAX_QUERY_BYTES: usize = 1 << 20;
/// Bytes of a query in KairosDB's language. The tree of its JSON takes a multiple.
pub const MAX_KAIROSDB_QUERY_BYTES: usize = 256 << 10;
/// Nesting depth of a query. Code that walks a query recurses to this depth.
pub const MAX_QUERY_DEPTH: usize = 500;
/// Stack of a server thread: a query of depth [`MAX_QUERY_DEPTH`] needs up to a quarter of it.
pub const THREAD_STACK_BYTES: usize = 32 << 20;
/// Requests for labels, series, metadata and similar that are processed at a time: their answers
/// are complete in memory. Further ones wait for up to [`LIST_WAIT`].
pub const MAX_CONCURRENT_LISTS: usize = 4;
/// Longest time that such a request waits for a permit before it is refused with a retry time.
pub const LIST_WAIT: Duration = Duration::from_secs(10);
/// Bytes of the names, values or label sets in the answer of a label endpoint; a longer list is cut, with a warning.
/// Also bytes of exemplars in an answer; more are an error. Less if memory is small.
pub const MAX_LIST_BYTES: usize = 32 << 20;
/// Bytes of the metadata of all metric families: name, help and unit of each, and [`FAMILY_BYTES`].
/// Less if memory is small.
pub const MAX_METADATA_BYTES: usize = 64 << 20;
/// Bytes that a family counts in addition to its texts: its type and its place in memory.
pub const FAMILY_BYTES: usize = 100;
/// Names, values or series in the answer of a label endpoint; a longer list is cut, with a warning.
pub const MAX_LABEL_RESULTS: usize = 500_000;
/// Series listed in the answer that describes what a delete would remove.
pub const MAX_PREVIEW_SERIES: usize = 1_000;
/// How long requests in progress may take when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest and longest wait between two attempts to open the store: short after a short outage,
/// and no burden for a cluster that is starting.
pub const LEAST_RETRY: Duration = Duration::from_millis(200);
/// See [`LEAST_RETRY`].
pub const MOST_RETRY: Duration = Duration::from_secs(10);
/// How long a refused login is retried at the start: a cluster that is starting may not know its
/// users yet.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(120);
/// Shortest and longest wait after a failed flush, unless the store was away and is back.
pub const LEAST_FLUSH_RETRY: Duration = Duration::from_secs(1);
/// See [`LEAST_FLUSH_RETRY`].
pub const MOST_FLUSH_RETRY: Duration = Duration::from_secs(60);
/// How often a store that is away is probed.
pub const RETURN_PROBE: Duration = Duration::from_secs(1);
/// How often the server checks whether the disk has room for a new segment of the log while no record arrives.
pub const LOG_PROBE: Duration = Duration::from_secs(10);
/// Writes are refused when points in memory exceed the flush limit by this factor.
pub const REFUSE_AT: u64 = 4;
/// Width of a time partition: a UTC day. A chunk of the head may cross midnight if its series has
/// few points a day (`head::series::stays_open`); a flush cuts it. Chunks in a part of one day lie
/// within that day; in a part of many days they may not.
pub const PARTITION_MS: i64 = 86_400_000;
/// Bytes of records and their points that may wait to be written to the log and applied.
pub const MAX_WAL_WAITING_BYTES: usize = 64 << 20;
/// Bytes of a label value made by `label_replace` or `label_join` in a query.
pub const MAX_QUERY_LABEL_VALUE_BYTES: usize = 1 << 20;
/// Labels of a series.
pub const LABEL_LIMITS: LabelLimits =
    LabelLimits { labels: 128, name_bytes: 1 << 10, value_bytes: 16 << 10, total_bytes: 32 << 10 };

/// Passwords that are being checked or wait, in total; the next constant is the limit for one address. A check takes
/// tens of milliseconds of a core by design. Requests with the same user and password share one check.
pub const PASSWORD_CHECKS: usize = 64;
/// See [`PASSWORD_CHECKS`].
pub const PASSWORD_CHECKS_PER_PEER: usize = 4;
/// Longest time that a request waits for its password check before it is refused with a retry time.
pub const PASSWORD_WAIT: Duration = Duration::from_secs(5);

/// Shortest time that a series stays in memory after its last write: several scrapes.
pub const SERIES_STAY: Duration = Duration::from_secs(300);

const _: () = assert!(PASSWORD_CHECKS_PER_PEER * 8 <= PASSWORD_CHECKS);
const _: () = assert!(MAX_DECODED_BYTES >= MAX_BODY_BYTES);
/// Longest TTL that Cassandra accepts: 20 years, in seconds.
pub const MAX_TTL_SECONDS: i64 = 20 * 365 * 24 * 3600;

const _: () = assert!(MAX_CHUNK_POINTS <= u16::MAX as usize);
const _: () = assert!(MAX_FRAME_BYTES + LABEL_LIMITS.total_bytes * 2 < 50_000_000);
