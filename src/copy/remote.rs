//! A running server as a source: points by remote read in streamed chunks, the rest by the HTTP API of
//! Prometheus. promkairos and Prometheus itself answer both.
//!
//! Invariant: only complete data is returned: every frame has its checksum, and a truncated answer is
//! an error. These protocols transfer neither start timestamps nor the bits of an exemplar that is NaN.

use std::io::{BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use ureq::http::HeaderValue;
use ureq::tls::TlsConfig;

use super::answers;
use super::runs::{RUN_BYTES, Run};
use crate::chunk::{Chunk, ChunkKind, ColumnBytes, SideKind};
use crate::model::{Exemplar, Labels, Matcher, Metadata, RawLabels, ShownSize, TimeRange, varint};
use crate::promql::format::timestamp;
use crate::storage::StoreError;
use crate::wire::read::{
    FrameChunk, FrameSeries, MAX_FRAME_MESSAGE, decode_frame, encode_read_request,
};
use crate::wire::snappy;

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest wait for an answer to begin.
const ANSWER: Duration = Duration::from_secs(300);

/// A server.
#[derive(Clone)]
pub struct Remote {
    url: String,
    agent: ureq::Agent,
    authorization: Option<HeaderValue>,
}

impl Remote {
    /// The server whose paths begin at `url`, with its TLS settings and the value of
    /// `Authorization`.
    pub fn new(url: &str, tls: TlsConfig, authorization: Option<HeaderValue>) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .tls_config(tls)
            .build();
        let url = url.trim_end_matches('/').to_owned();
        Self { url, agent: config.into(), authorization }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether there may be points in the range.
    pub(super) async fn may_have(
        &self,
        selector: &str,
        range: TimeRange,
    ) -> Result<bool, StoreError> {
        let (start, end) = (timestamp(range.start), timestamp(range.end));
        let query = [("match[]", selector), ("start", &start), ("end", &end), ("limit", "1")];
        let read = answers::is_any_listed;
        self.get("/api/v1/label/__name__/values", &query, u64::MAX, read).await
    }

    /// The series that match, with the chunks that overlap the range.
    pub(super) fn read(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
    ) -> Receiver<Result<Run, StoreError>> {
        let (sender, receiver) = channel(1);
        let (remote, matchers) = (self.clone(), matchers.to_vec());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = remote.read_frames(&matchers, range, &sender) {
                // A receiver that is gone needs no error either.
                let _ = sender.blocking_send(Err(error));
            }
        });
        receiver
    }

    /// Exemplars in the range, by series. An answer of more than half of `max_bytes` is
    /// [`StoreError::Limit`]: the parsed form takes about twice as much.
    pub(super) async fn exemplars(
        &self,
        selector: &str,
        range: TimeRange,
        max_bytes: usize,
    ) -> Result<Vec<(Labels, Vec<Exemplar>)>, StoreError> {
        let (start, end) = (timestamp(range.start), timestamp(range.end));
        let query = [("query", selector), ("start", &start), ("end", &end)];
        let most = max_bytes as u64 / 2;
        self.get("/api/v1/query_exemplars", &query, most, answers::exemplars).await
    }

    /// Metadata of all families; of several entries of a family the first.
    pub(super) async fn metadata(&self) -> Result<Vec<(String, Metadata)>, StoreError> {
        self.get("/api/v1/metadata", &[], u64::MAX, answers::metadata).await
    }

    /// The parsed answer to a GET, limited to `max_bytes`; a longer one is [`StoreError::Limit`].
    async fn get<T: Send + 'static>(
        &self,
        path: &'static str,
        query: &[(&str, &str)],
        max_bytes: u64,
        read: fn(&[u8]) -> Option<T>,
    ) -> Result<T, StoreError> {
        let mut request = self.authorized(self.agent.get(format!("{}{path}", self.url)));
        for (name, value) in query {
            request = request.query(name, value);
        }
        let asked = tokio::task::spawn_blocking(move || {
            let mut answer = answered(request.call())?;
            let body = answer.body_mut().with_config().limit(max_bytes).read_to_vec();
            let body = body.map_err(|error| match error {
                ureq::Error::BodyExceedsLimit(_) => {
                    let most = ShownSize::of(max_bytes);
                    StoreError::Limit(format!("{path}: an answer of more than {most}"))
                }
                error => away(&error.to_string()),
            })?;
            read(&body).ok_or_else(|| not_understood(path))
        });
        asked.await.unwrap_or_else(|error| Err(away(&error.to_string())))
    }

    fn authorized<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value.clone()),
            None => request,
        }
    }

    fn read_frames(
        &self,
        matchers: &[Matcher],
        range: TimeRange,
        sender: &Sender<Result<Run, StoreError>>,
    ) -> Result<(), StoreError> {
        const PATH: &str = "/api/v1/read";
        let request = snappy::compress(&encode_read_request(matchers, range))
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
        let request = self
            .authorized(self.agent.post(format!("{}{PATH}", self.url)))
            .header("Content-Encoding", "snappy")
            .header("Content-Type", "application/x-protobuf")
            .header("X-Prometheus-Remote-Read-Version", "0.1.0")
            .send(&request[..]);
        let answer = answered(request)?;
        let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        // An answer without series may have no type at all.
        if kind.is_some_and(|kind| kind.starts_with("application/x-protobuf")) {
            return Err(broken("whole samples: it does not stream chunks"));
        }
        let mut body = BufReader::new(answer.into_body().into_reader());
        let (mut run, mut bytes) = (Run::new(), 0);
        let mut is_wanted = true;
        read_answer(&mut body, |labels, chunks| {
            bytes += chunks.iter().map(|chunk| chunk.data.len() + 64).sum::<usize>();
            // A large series arrives in several frames.
            match run.last_mut() {
                Some((last, all)) if *last == labels => all.extend(chunks),
                _ => {
                    if bytes >= RUN_BYTES && !run.is_empty() {
                        bytes = 0;
                        is_wanted = sender.blocking_send(Ok(std::mem::take(&mut run))).is_ok();
                    }
                    run.push((labels, chunks));
                }
            }
            if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if is_wanted {
            let _ = sender.blocking_send(Ok(run));
        }
        Ok(())
    }
}

/// Reads an answer in streamed chunks to its end and passes each series of each frame to `take`, which
/// returns whether to continue. An incomplete frame is an error; series passed before it were complete.
pub fn read_answer(
    body: &mut impl Read,
    mut take: impl FnMut(Labels, Vec<Chunk>) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    while let Some(message) = frame(body)? {
        let series = decode_frame(&message).map_err(|error| broken(&error.to_string()))?;
        for series in series {
            let (labels, chunks) = decoded(&series)?;
            if take(labels, chunks).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The message of the next frame; `None` at the end of the answer.
fn frame(body: &mut impl Read) -> Result<Option<Vec<u8>>, StoreError> {
    let cut = |error: std::io::Error| away(&format!("the answer broke off: {error}"));
    let mut first = [0];
    if body.read(&mut first).map_err(cut)? == 0 {
        return Ok(None);
    }
    let mut next = Some(first[0]);
    let mut byte = || match next.take() {
        Some(byte) => Ok(byte),
        None => {
            let mut one = [0];
            body.read_exact(&mut one).map(|()| one[0])
        }
    };
    let too_long = std::io::Error::from(ErrorKind::InvalidData);
    let length = varint::read(&mut byte, too_long).map_err(cut)?;
    if length > MAX_FRAME_MESSAGE as u64 {
        return Err(broken(&format!("a frame of {}", ShownSize::of(length))));
    }
    let mut checksum = [0; 4];
    body.read_exact(&mut checksum).map_err(cut)?;
    // Allocate no more than the bytes that arrive.
    let mut message = Vec::with_capacity((length as usize).min(1 << 16));
    if body.take(length).read_to_end(&mut message).map_err(cut)? < length as usize {
        return Err(cut(ErrorKind::UnexpectedEof.into()));
    }
    if crc32c::crc32c(&message).to_be_bytes() != checksum {
        return Err(broken("a frame with a wrong checksum"));
    }
    Ok(Some(message))
}

fn decoded(series: &FrameSeries<'_>) -> Result<(Labels, Vec<Chunk>), StoreError> {
    let labels = RawLabels(&series.labels).to_labels();
    let labels = labels.map_err(|error| broken(&error.to_string()))?;
    let chunk = |chunk: &FrameChunk<'_>| {
        let kind = u8::try_from(chunk.kind).ok().and_then(|kind| ChunkKind::try_from(kind).ok());
        let kind = kind.filter(|kind| *kind != ChunkKind::Packed)?;
        Some(Chunk {
            kind,
            count: u16::from_be_bytes(*chunk.data.first_chunk()?),
            min_time: chunk.min_time,
            max_time: chunk.max_time,
            data: Bytes::copy_from_slice(chunk.data),
            side: ColumnBytes::default(),
            side_kind: SideKind::Starts,
            stamps: ColumnBytes::default(),
        })
    };
    let chunks: Option<Vec<Chunk>> = series.chunks.iter().map(chunk).collect();
    let chunks =
        chunks.ok_or_else(|| broken(&format!("a chunk of {labels} of an unknown encoding")))?;
    Ok((labels, chunks))
}

/// Turns a status that is not a success into an error.
fn answered(
    answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> Result<ureq::http::Response<ureq::Body>, StoreError> {
    let mut answer = answer.map_err(|error| match is_distrust(&error) {
        true => {
            let hint = distrusted(&error);
            StoreError::Invalid(format!("its certificate is not accepted: {error}{hint}"))
        }
        false => away(&error.to_string()),
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let text = answer.body_mut().read_to_string().unwrap_or_default();
    let why = answers::why(&text);
    let what = format!("{status}: {why}");
    Err(match status.as_u16() {
        408 | 429 | 500.. => away(&what),
        // Usually a limit: a smaller request may succeed.
        422 => StoreError::Limit(what),
        _ => StoreError::Invalid(what),
    })
}

/// Whether the server's certificate is refused, which does not pass by itself.
pub fn is_distrust(error: &ureq::Error) -> bool {
    let of_tls = match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    };
    matches!(of_tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// A hint about a refused certificate, to append to its error.
pub fn distrusted(error: &ureq::Error) -> &'static str {
    match error.to_string().contains("CaUsedAsEndEntity") {
        true => "; it is that of an authority: make one with basicConstraints=CA:FALSE",
        false => "; --server-ca names who signs it",
    }
}

fn away(why: &str) -> StoreError {
    StoreError::unavailable(why)
}

fn broken(what: &str) -> StoreError {
    StoreError::Backend {
        what: "remote read".into(),
        source: format!("answered with {what}").into(),
    }
}

fn not_understood(path: &str) -> StoreError {
    StoreError::Backend { what: path.to_owned(), source: "not the expected answer".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_whole_or_an_error() {
        let mut bytes = vec![3];
        bytes.extend_from_slice(&crc32c::crc32c(b"abc").to_be_bytes());
        bytes.extend_from_slice(b"abc");
        let mut body = &bytes[..];
        assert_eq!(frame(&mut body).expect("whole"), Some(b"abc".to_vec()));
        assert_eq!(frame(&mut body).expect("the end"), None);
        for end in 1..bytes.len() {
            let error = frame(&mut &bytes[..end]).expect_err("cut off").to_string();
            assert!(error.starts_with("the answer broke off: "), "{error}");
        }
        for at in 1..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            let error = frame(&mut &flipped[..]).expect_err("damaged").to_string();
            assert!(error.ends_with("a frame with a wrong checksum"), "{error}");
        }
        let error = frame(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]).expect_err("huge").to_string();
        assert!(error.ends_with("a frame of 4.0GiB"), "{error}");
    }

    #[test]
    fn a_certificate_that_is_refused_does_not_pass_by_itself() {
        use rustls::{CertificateError, Error};
        let refused = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        for error in [ureq::Error::Rustls(refused()), std::io::Error::other(refused()).into()] {
            let error = answered(Err(error)).expect_err("refused");
            assert!(matches!(&error, StoreError::Invalid(_)), "{error:?}");
            assert!(error.to_string().contains("--server-ca"), "{error}");
        }
        for error in [
            ureq::Error::Rustls(Error::HandshakeNotComplete),
            std::io::Error::from(ErrorKind::ConnectionRefused).into(),
        ] {
            let error = answered(Err(error)).expect_err("away");
            assert!(matches!(&error, StoreError::Unavailable { .. }), "{error:?}");
        }
    }
}
