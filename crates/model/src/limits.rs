//! The limits of requests and of the server, and those that several modules must agree on, each
//! with its unit. Passing one is an error that names it.
//!
//! Not here: what is a setting, and how much one module does at a time or remembers, which no
//! request can pass; that stands at the head of its file.

use std::time::Duration;

use crate::LabelLimits;

/// Connections at a time; a further one takes the place of one without a whole request. Below
/// the 1024 file handles that a process usually has, so that the store keeps its own.
pub const MAX_CONNECTIONS: usize = 512;
/// Connections beyond those, for health and metrics alone: enough for probes, few enough for the same.
pub const SPARE_CONNECTIONS: usize = 16;
/// Requests of one HTTP/2 connection at a time.
pub const MAX_HTTP2_STREAMS: u32 = 200;
/// Bytes of the head of a request: path, query and headers. Each header counts [`HEADER_BYTES`] beside
/// its name and value, as HTTP/2 has it.
pub const MAX_HEAD_BYTES: usize = 128 << 10;
/// See [`MAX_HEAD_BYTES`].
pub const HEADER_BYTES: usize = 32;
/// Bytes of the path of a request, over HTTP/2 of path and query: what the crate `http` can hold.
pub const MAX_TARGET_BYTES: usize = (u16::MAX - 1) as usize;
/// Headers of a request over HTTP/1: what hyper takes without memory for more.
pub const MAX_HEADERS: usize = 100;
/// Bytes of the head of a request that hyper takes over HTTP/2. Up to these we refuse a head ourselves, with a text;
/// hyper has none.
pub const MAX_READ_HEAD_BYTES: u32 = 4 * MAX_HEAD_BYTES as u32;
/// What a refusal at a limit says that is no setting.
pub const NO_SETTING: &str = "no setting changes that";
/// Bytes that are read and dropped of the body of a request which is refused without it, so that its client reads the
/// answer: one that is closed while it sends sees a broken connection, and repeats.
pub const DRAINED_BODY_BYTES: usize = 32 << 20;
/// Longest time for that.
pub const DRAINED_BODY_TIME: Duration = Duration::from_secs(5);
/// Requests that are answered at a time. Far more than what a sound server has under way, and few enough
/// for their heads and waiting to take no memory that matters.
pub const MAX_CONCURRENT_REQUESTS: usize = 4096;
/// Longest time for a whole head of a request, from its first byte or from the connection on.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request body may take before its connection gives way to another that finds no place: more
/// than one takes on a sound network.
pub const BODY_GRACE: Duration = Duration::from_secs(1);
/// How long a connection may rest between two requests: senders that come once a minute keep theirs.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a client may take nothing of an answer; then it loses it.
pub const ANSWER_STALL: Duration = Duration::from_secs(60);
/// Limit in place of [`ANSWER_STALL`] from 80 % of the memory limit.
pub const TIGHT_ANSWER_STALL: Duration = Duration::from_secs(5);
/// Limit in place of [`ANSWER_STALL`] from 90 % of the memory limit.
pub const FULL_ANSWER_STALL: Duration = Duration::from_secs(1);
/// How long a client may take nothing of its answers before its connection gives way to another that finds no place,
/// or an answer to another that finds no room.
pub const ANSWER_GRACE: Duration = Duration::from_secs(4);
/// The same where nobody has logged in, on a server with users or tokens; then its connection is closed in any case.
pub const STRANGER_GRACE: Duration = Duration::from_secs(2);
/// Bytes of an answer that are handed on at a time: who reads slowly comes to the next ones in time.
pub const ANSWER_PIECE_BYTES: usize = 64 << 10;
/// How often the files of the web configuration are looked at.
pub const WEB_CONFIG_CHECK: Duration = Duration::from_secs(2);
/// How long no connection is accepted after one could not be: file handles may be short.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a compressed request body.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// Bytes that a snappy block may declare as its decoded length.
pub const MAX_DECODED_BYTES: usize = 32 << 20;
/// Bytes of compressed bodies of one kind in memory at a time, however much memory there may be.
pub const MAX_BODY_BYTES_IN_FLIGHT: usize = 128 << 20;
/// Bytes of decoded remote-write requests in memory at a time, as estimated from their messages, likewise.
pub const MAX_DECODED_BYTES_IN_FLIGHT: usize = 256 << 20;
/// Longest time that a request body may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Buffers for decoding that are kept for later requests.
pub const MAX_KEPT_BUFFERS: usize = 16;
/// Bytes of each of them at most; larger ones are given back.
pub const MAX_KEPT_BUFFER_BYTES: usize = 4 << 20;
/// When a client is told to come again after what soon passes: no room, a store that is away.
pub const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The same when a log or its memory is full, which only a flush ends.
pub const FULL_RETRY_AFTER: Duration = Duration::from_secs(30);
/// Longest time that a remote-write request waits for memory.
pub const INTAKE_WAIT: Duration = Duration::from_secs(10);
/// Series in one remote-write request.
pub const MAX_SERIES_PER_REQUEST: usize = 1 << 18;
/// Floats and histograms in one remote-write request.
pub const MAX_SAMPLES_PER_REQUEST: usize = 1 << 20;
/// How far in the future a sample may be: far enough for clocks and for plans of what is to come, and not for
/// microseconds in the place of milliseconds.
pub const MAX_SAMPLE_LEAD: Duration = Duration::from_secs(365 * 24 * 3600);
/// Native histograms in one remote-write request: two bytes of body can be one.
pub const MAX_HISTOGRAMS_PER_REQUEST: usize = 1 << 17;
/// Exemplars in one remote-write request.
pub const MAX_EXEMPLARS_PER_REQUEST: usize = 1 << 17;
/// Metadata entries in one remote-write request.
pub const MAX_METADATA_PER_REQUEST: usize = 1 << 17;
/// Symbols in one remote-write 2.0 request.
pub const MAX_SYMBOLS_PER_REQUEST: usize = 1 << 20;
/// Bytes of all label sets of a remote-write 2.0 request once its symbols are resolved.
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
/// Bytes that all compiled regular expressions of one request may take; less where there is little memory.
pub const MAX_REQUEST_REGEX_BYTES: usize = 64 << 20;
/// Points in a chunk.
pub const MAX_CHUNK_POINTS: usize = 120;
/// Queries in one remote read.
pub const MAX_READ_QUERIES: usize = 256;
/// Matchers in one remote read, over all its queries.
pub const MAX_READ_MATCHERS: usize = 128;
/// Bytes of all patterns of one remote read: parsing takes some hundred times as much.
pub const MAX_READ_PATTERN_BYTES: usize = 1 << 20;
/// Protobuf fields in one remote read: matchers, hints and all.
pub const MAX_READ_FIELDS: usize = 1 << 16;
/// Remote reads under way at once; further ones wait in line for [`READ_WAIT`].
pub const MAX_CONCURRENT_READS: usize = 10;
/// Longest time that a remote read waits for its turn; then it is told to come again.
pub const READ_WAIT: Duration = Duration::from_secs(30);
/// For so many of them one may have an answer that is whole in memory (SAMPLES).
pub const READS_PER_SAMPLE_READ: usize = 5;
/// Bytes of an answer that is whole in memory, before compression, however much memory there may be.
pub const MAX_READ_RESPONSE_BYTES: usize = 1 << 30;
/// Bytes of chunks in one frame of a streamed answer; clients refuse frames over 50,000,000.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
/// Bytes of chunks that a read fetches at a time; a single larger series passes it.
pub const READ_RUN_BYTES: usize = 1 << 20;
/// Series that a read fetches at a time.
pub const READ_RUN_SERIES: usize = 4096;
/// Fetches of remote read that are under way at once.
pub const READ_AHEAD_RUNS: usize = 4;
/// Bytes of the text of a query.
pub const MAX_QUERY_BYTES: usize = 1 << 20;
/// Expressions around an expression of a query. Whoever walks a query recurses so deep.
pub const MAX_QUERY_DEPTH: usize = 500;
/// Stack of a thread that serves: a query of that depth needs up to a quarter of it.
pub const THREAD_STACK_BYTES: usize = 32 << 20;
/// Questions for labels, series, metadata and the like that are answered at a time: their answers are
/// whole in memory. Further ones wait for [`LIST_WAIT`].
pub const MAX_CONCURRENT_LISTS: usize = 4;
/// Longest time that such a question waits for its turn; then it is told to come again.
pub const LIST_WAIT: Duration = Duration::from_secs(10);
/// Bytes of the names, values or label sets in the answer of a label endpoint. The first ones are listed,
/// and that there are more is told. Bytes of exemplars in an answer too: more are an error. Less where there is
/// little memory.
pub const MAX_LIST_BYTES: usize = 32 << 20;
/// Bytes of what is known of metric families: of each its name, help and unit, and [`FAMILY_BYTES`]. Less where there
/// is little memory.
pub const MAX_METADATA_BYTES: usize = 64 << 20;
/// What a family counts beside its texts: its type and its place in memory.
pub const FAMILY_BYTES: usize = 100;
/// Names, values or series in the answer of a label endpoint; what is cut off is told.
pub const MAX_LABEL_RESULTS: usize = 500_000;
/// Series listed in the answer that says what a delete would take.
pub const MAX_PREVIEW_SERIES: usize = 1_000;
/// How long requests under way may take when the server stops.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest and longest wait between two attempts to open the store: soon after a short absence,
/// and never a burden to a cluster that is coming up.
pub const LEAST_RETRY: Duration = Duration::from_millis(200);
/// See [`LEAST_RETRY`].
pub const MOST_RETRY: Duration = Duration::from_secs(10);
/// How long a refused login is tried again at the start: a cluster that comes up may not know its
/// users yet.
pub const LOGIN_PATIENCE: Duration = Duration::from_secs(120);
/// Shortest and longest wait after a failed flush, unless the store was away and comes back.
pub const LEAST_FLUSH_RETRY: Duration = Duration::from_secs(1);
/// See [`LEAST_FLUSH_RETRY`].
pub const MOST_FLUSH_RETRY: Duration = Duration::from_secs(60);
/// How often a store that is away is asked meanwhile whether it is back.
pub const RETURN_PROBE: Duration = Duration::from_secs(1);
/// How often it is tried whether the disk has room for the first record of a segment of the log, while none comes.
pub const LOG_PROBE: Duration = Duration::from_secs(10);
/// How many times the limit at which a flush begins points in memory may have; then writes are
/// refused.
pub const REFUSE_AT: u64 = 4;
/// Width of a time partition: a UTC day. A chunk of the head may pass the end of its day if its series has few points
/// a day (`head::series::stays_open`); a flush cuts it. Chunks in a part of one day lie within that day; in a part of
/// many days they may not.
pub const PARTITION_MS: i64 = 86_400_000;
/// Bytes of records, and of their points, that may wait to be written to the log and applied.
pub const MAX_WAL_WAITING_BYTES: usize = 64 << 20;
/// Bytes of a label value that a query makes by `label_replace` or `label_join`.
pub const MAX_QUERY_LABEL_VALUE_BYTES: usize = 1 << 20;
/// Labels of a series.
pub const LABEL_LIMITS: LabelLimits =
    LabelLimits { labels: 128, name_bytes: 1 << 10, value_bytes: 16 << 10, total_bytes: 32 << 10 };

/// Passwords that are being checked or wait for it, and those of them that come from one address: a check
/// takes tens of milliseconds of a core by design. The same password of the same user is one, however
/// many requests come with it.
pub const PASSWORD_CHECKS: usize = 64;
/// See [`PASSWORD_CHECKS`].
pub const PASSWORD_CHECKS_PER_PEER: usize = 4;
/// Longest wait of a request until its password is checked; then it is told to come again.
pub const PASSWORD_WAIT: Duration = Duration::from_secs(5);

/// How long a series that nobody writes to stays in memory at least: several scrapes.
pub const SERIES_STAY: Duration = Duration::from_secs(300);

const _: () = assert!(PASSWORD_CHECKS_PER_PEER * 8 <= PASSWORD_CHECKS);
const _: () = assert!(MAX_DECODED_BYTES >= MAX_BODY_BYTES);
/// Longest TTL that Cassandra takes: 20 years, in seconds.
pub const MAX_TTL_SECONDS: i64 = 20 * 365 * 24 * 3600;

const _: () = assert!(MAX_CHUNK_POINTS <= u16::MAX as usize);
const _: () = assert!(MAX_FRAME_BYTES + LABEL_LIMITS.total_bytes * 2 < 50_000_000);
