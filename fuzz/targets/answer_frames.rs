//! An answer of remote read in streamed chunks, as `copy` receives it: it is read or refused, and
//! what is read is bounded by its bytes.
//!
//! Checksums are computed here, because no random change would get past them.
use std::ops::ControlFlow;

use promkairos::chunk::ChunkKind;
use promkairos::copy::read_answer;

/// Frames: each the length of its message in two bytes and the message. Also tried: the same bytes unchanged.
pub(crate) fn check(data: &[u8]) {
    check_answer(data);
    let (mut rest, mut answer, mut messages) = (data, Vec::new(), 0);
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(tail.len());
        let (message, tail) = tail.split_at(length);
        rest = tail;
        let mut left = length;
        while left >= 0x80 {
            answer.push(left as u8 | 0x80);
            left >>= 7;
        }
        answer.push(left as u8);
        answer.extend(crc32c::crc32c(message).to_be_bytes());
        answer.extend(message);
        messages += length;
    }
    assert!(check_answer(&answer) <= 2 * messages, "labels and data of {messages} bytes");
    // A truncated frame is refused.
    if let Some((_, torn)) = answer.split_last() {
        let read = read_answer(&mut &torn[..], |_, _| ControlFlow::Continue(()));
        read.expect_err("its end is missing");
    }
}

/// The number of bytes held from the answer.
fn check_answer(mut answer: &[u8]) -> usize {
    let mut held = 0;
    let _ = read_answer(&mut answer, |labels, chunks| {
        held += labels.as_bytes().len();
        for chunk in &chunks {
            assert!(chunk.kind != ChunkKind::Packed, "no protocol knows it");
            held += chunk.data.len();
            let _ = chunk.validate();
        }
        ControlFlow::Continue(())
    });
    held
}
