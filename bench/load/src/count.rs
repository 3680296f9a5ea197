//! `load count`: how many samples are stored, by remote read with streamed chunks.
//!
//! A chunk says in its first two bytes how many samples it holds; nothing is decoded.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;

use crate::bodies::push_varint;
use crate::http::Connection;
use crate::process;

#[derive(Args)]
pub struct Options {
    /// Address of the server, on the loopback.
    #[arg(long, default_value = "127.0.0.1:9201")]
    address: SocketAddr,
    /// Start of the range in milliseconds.
    #[arg(long, default_value_t = 1_700_000_000_000)]
    start: i64,
    /// End of the range in milliseconds.
    #[arg(long, default_value_t = 1_800_000_000_000)]
    end: i64,
    /// Regular expression on the metric's name.
    #[arg(long, default_value = "bench_.+")]
    metric: String,
    /// Process of the server, for its memory.
    #[arg(long, default_value_t = 0)]
    pid: u32,
}

const HEADERS: &str = "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\n\
                       X-Prometheus-Remote-Read-Version: 0.1.0\r\n";

pub fn run(options: &Options) -> io::Result<()> {
    let began = Instant::now();
    let mut connection = Connection::open(options.address, "/api/v1/read", HEADERS)?;
    let body =
        snap::raw::Encoder::new().compress_vec(&request(options)).map_err(io::Error::other)?;
    let (status, length) = connection.begin(&body)?;
    if status != 200 || length.is_some() {
        return Err(io::Error::other(format!("status {status}, not a stream")));
    }
    let (mut buffer, mut samples, mut bytes) = (Vec::new(), 0u64, 0u64);
    let mut series = BTreeSet::new();
    while let Some(chunk) = connection.next_chunk()? {
        buffer.extend_from_slice(&chunk);
        let mut rest = &buffer[..];
        while let Some((frame, after)) = split_frame(rest) {
            count_frame(frame, &mut samples, &mut bytes, &mut series);
            rest = after;
        }
        let keep = rest.len();
        buffer.drain(..buffer.len() - keep);
    }
    let result = serde_json::json!({
        "series": series.len(),
        "samples": samples,
        "chunk_bytes_per_sample": bytes as f64 / samples as f64,
        "seconds": began.elapsed().as_secs_f64(),
        "peak_rss_bytes": process::peak_rss(options.pid),
    });
    println!("{result:#}");
    Ok(())
}

fn request(options: &Options) -> Vec<u8> {
    let mut matcher = vec![0x08, 0x02];
    for (tag, text) in [(0x12, "__name__"), (0x1A, &options.metric[..])] {
        matcher.push(tag);
        push_varint(&mut matcher, text.len() as u64);
        matcher.extend_from_slice(text.as_bytes());
    }
    let mut query = vec![0x08];
    push_varint(&mut query, options.start as u64);
    query.push(0x10);
    push_varint(&mut query, options.end as u64);
    query.push(0x1A);
    push_varint(&mut query, matcher.len() as u64);
    query.extend_from_slice(&matcher);
    let mut request = vec![0x0A];
    push_varint(&mut request, query.len() as u64);
    request.extend_from_slice(&query);
    request.extend_from_slice(&[0x12, 0x01, 0x01]);
    request
}

/// The payload of the first frame and what follows; `None` when it is not all there yet.
fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = varint(bytes)?;
    let rest = rest.get(4..)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

fn count_frame(frame: &[u8], samples: &mut u64, bytes: &mut u64, series: &mut BTreeSet<Vec<u8>>) {
    for (tag, chunked_series) in fields(frame) {
        if tag != 0x0A {
            continue;
        }
        let mut labels = Vec::new();
        for (tag, field) in fields(chunked_series) {
            match tag {
                0x0A => labels.extend_from_slice(field),
                0x12 => {
                    for (tag, data) in fields(field) {
                        if tag == 0x22 {
                            *samples += u64::from(data[0]) << 8 | u64::from(data[1]);
                            *bytes += data.len() as u64;
                        }
                    }
                }
                _ => {}
            }
        }
        series.insert(labels);
    }
}

/// The length-delimited fields of a message; varints are passed over.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut result = Vec::new();
    while let Some((tag, rest)) = varint(bytes) {
        let Some((value, rest)) = varint(rest) else { break };
        bytes = rest;
        if tag & 7 == 2 {
            let Some((field, rest)) = rest.split_at_checked(value as usize) else { break };
            result.push((tag, field));
            bytes = rest;
        }
    }
    result
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}
