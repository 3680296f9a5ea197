//! Converts zstd bodies of VictoriaMetrics' agents to snappy blocks, the form that the log stores.
//!
//! A frame declares the size of its content; that much memory is reserved before it is decompressed. A frame without
//! that size is refused, and its sender falls back to snappy.

use zstd::bulk::Decompressor;
use zstd::zstd_safe::get_frame_content_size;

use super::parser::parse_error;
use crate::request_error::RequestError;
use promkairos_ingest::{Intake, ReceivedBody, Refusal, run_long};
use promkairos_wire::snappy;

/// The body as a snappy block, if its content has at most `most` bytes.
pub(super) async fn as_snappy(
    intake: &Intake,
    body: ReceivedBody,
    most: usize,
) -> Result<ReceivedBody, RequestError> {
    let declared = get_frame_content_size(&body.bytes).ok().flatten();
    let declared = declared.ok_or(RequestError::Zstd)?;
    let length = usize::try_from(declared).unwrap_or(usize::MAX);
    if length > most {
        return Err(Refusal::decoded(declared, most).into());
    }
    let room = intake.room_for(length).await?;
    let block = run_long(length, || {
        let content = Decompressor::new()
            .and_then(|mut zstd| zstd.decompress(&body.bytes, length))
            .map_err(|_| RequestError::Zstd)?;
        let block = snappy::compress(&content);
        block.map_err(|error| RequestError::Refused(parse_error(error).into()))
    })?;
    drop(room);
    Ok(intake.in_place(body, block.into())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(frame: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
        let intake = Intake::default();
        let body = intake.hold(frame.into(), 1 << 20).await.expect("room");
        let block = as_snappy(&intake, body, most).await.map_err(|error| error.to_string())?;
        let mut content = Vec::new();
        Ok(snappy::decompress(&block.bytes, &mut content).expect("a block").to_vec())
    }

    #[tokio::test]
    async fn a_frame_becomes_a_block_and_its_size_is_judged_first() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
        let frame = zstd::bulk::compress(&content, 1).expect("it compresses");
        assert_eq!(read(frame.clone(), content.len()).await, Ok(content.clone()));
        let beyond = read(frame.clone(), content.len() - 1).await.expect_err("it is larger");
        assert!(beyond.contains("390.6KiB decoded") && beyond.contains("max-decoded-body-size"));
        let no_frame = "body is not a zstd frame that says how large its content is";
        for broken in [vec![], b"nothing".to_vec(), frame[..frame.len() / 2].to_vec()] {
            assert_eq!(read(broken, content.len()).await, Err(no_frame.to_owned()));
        }
        // A frame that declares a wrong size.
        let mut lies = frame;
        lies[5] = lies[5].wrapping_sub(1);
        assert!(read(lies, content.len()).await.is_err());
    }
}
