//! Unpacks gzip bodies.
//!
//! The end of a file says how large its content is; that much memory is reserved before it is unpacked. A body of
//! several files, one behind the other, is refused.

use std::io::Read;

use flate2::bufread::GzDecoder;

use crate::request_error::RequestError;
use promkairos_ingest::{Intake, ParseError, ReceivedBody, Refusal, run_long};

/// How a file begins.
const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What KairosDB answers.
const NO_GZIP: &str = "Not in GZIP format";

/// The content of a body, if it has at most `most` bytes.
pub(super) async fn unpacked(
    intake: &Intake,
    body: ReceivedBody,
    most: usize,
) -> Result<ReceivedBody, RequestError> {
    let length = body.bytes.last_chunk().map(|end| u32::from_le_bytes(*end) as usize);
    let length = length.filter(|_| body.bytes.starts_with(&MAGIC)).ok_or_else(no_gzip)?;
    if length > most {
        return Err(Refusal::decoded(length as u64, most).into());
    }
    let room = intake.room_for(length).await?;
    let content = run_long(length, || {
        let mut content = Vec::with_capacity(length);
        let mut file = GzDecoder::new(&body.bytes[..]).take(length as u64 + 1);
        match file.read_to_end(&mut content) {
            Ok(read) if read == length && file.get_ref().get_ref().is_empty() => Ok(content),
            _ => Err(no_gzip()),
        }
    })?;
    drop(room);
    Ok(intake.in_place(body, content.into())?)
}

fn no_gzip() -> RequestError {
    RequestError::Refused(ParseError::Malformed(NO_GZIP.into()).into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(content).expect("into memory");
        file.finish().expect("into memory")
    }

    async fn read(file: Vec<u8>, most: usize) -> Result<Vec<u8>, String> {
        let intake = Intake::default();
        let body = intake.hold(file.into(), 1 << 20).await.expect("room");
        let content = unpacked(&intake, body, most).await.map_err(|error| error.to_string())?;
        Ok(content.bytes.to_vec())
    }

    #[tokio::test]
    async fn a_file_is_unpacked_and_its_size_is_judged_first() {
        let content: Vec<u8> = (0..100_000_u32).flat_map(|n| (n % 251).to_le_bytes()).collect();
        let file = packed(&content);
        assert_eq!(read(file.clone(), content.len()).await, Ok(content.clone()));
        assert_eq!(read(packed(b""), 0).await, Ok(vec![]));
        let beyond = read(file.clone(), content.len() - 1).await.expect_err("it is larger");
        assert!(beyond.contains("max-decoded-body-size"), "{beyond}");
        let mut lies = file.clone();
        let end = lies.len() - 4;
        lies[end..].copy_from_slice(&10_u32.to_le_bytes());
        let two = [packed(b"one"), packed(b"two")].concat();
        for broken in [vec![], b"nothing".to_vec(), file[..file.len() - 9].to_vec(), lies, two] {
            assert!(read(broken, 1 << 20).await.is_err());
        }
    }
}
