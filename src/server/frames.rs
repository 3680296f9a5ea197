//! Parses the frames of HTTP/2 as they pass, and tracks requests with large heads. Payloads are skipped; nothing is
//! decompressed.
//!
//! ```text
//! length 3 | type 1 | flags 1 | stream 4 | payload
//! ```

use crate::limits::MAX_TARGET_BYTES;

/// Bytes of a frame header.
const HEADER: usize = 9;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const PROTOCOL_ERROR: u32 = 1;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// The setting SETTINGS_HEADER_TABLE_SIZE, and its default in bytes.
const TABLE_SIZE: u16 = 1;
const USUAL_TABLE_SIZE: u32 = 4096;

/// Compressed bytes from which a head may contain a path that is too long: a character takes at least 5 bits.
const LARGE: usize = MAX_TARGET_BYTES / 8 * 5;
/// Most large heads that are tracked at a time.
const MOST_LARGE: usize = 16;
/// Most bytes of an answer head that has only a status. Every answer of our own has more headers.
const LONE_STATUS: usize = 5;

/// The position of a connection in the frames of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frames {
    /// The first bytes of the next frame.
    header: [u8; HEADER],
    have: usize,
    /// The rest of the current payload.
    rest: usize,
}

/// A parsed frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    kind: u8,
    flags: u8,
    pub(super) stream: u32,
    length: usize,
}

impl Frames {
    /// Skips to the payload of the next frame that begins in `bytes`; `None` = `bytes` are consumed.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        let passed = self.rest.min(bytes.len());
        self.rest -= passed;
        *bytes = &bytes[passed..];
        let taken = (HEADER - self.have).min(bytes.len());
        self.header[self.have..][..taken].copy_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        self.have += taken;
        if self.have < HEADER {
            return None;
        }
        let [a, b, c, kind, flags, stream @ ..] = self.header;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        (self.have, self.rest) = (0, length);
        Some(Frame { kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1), length })
    }

    /// Skips all of `bytes`.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while self.next(&mut bytes).is_some() {}
    }
}

/// Streams with large heads that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct LargeHeads {
    /// The head being received, and its bytes.
    stream: u32,
    bytes: usize,
    streams: Vec<u32>,
    /// The client lowered its header table size; the next head sent to it must begin with an update.
    owes_table_size: bool,
}

/// What was sent on a stream with a large head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// A refusal for the size of the head.
    Refusal,
    /// A reset for the size of the head, before which a status can be inserted.
    Reset,
}

impl LargeHeads {
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Notes a received frame; `payload` has at least the beginning of its payload.
    pub(super) fn came(&mut self, frame: Frame, payload: &[u8]) {
        match frame.kind {
            HEADERS => (self.stream, self.bytes) = (frame.stream, frame.length),
            CONTINUATION if frame.stream == self.stream => self.bytes += frame.length,
            SETTINGS if frame.flags & ACK == 0 => {
                self.owes_table_size |= lowers_table_size(frame, payload);
                return;
            }
            _ => return,
        }
        if self.bytes >= LARGE && !self.streams.contains(&self.stream) {
            self.streams.truncate(MOST_LARGE - 1);
            self.streams.insert(0, self.stream);
        }
    }

    /// Notes a frame to be sent; `payload` has at least the beginning of its payload. [`Sent::Reset`] is returned
    /// again until the stream is [`Self::done`].
    pub(super) fn sent(&mut self, frame: Frame, payload: &[u8]) -> Option<Sent> {
        let code = |at: usize| {
            let code = payload.get(at..at + 4)?;
            Some(u32::from_be_bytes(code.try_into().ok()?))
        };
        if frame.kind == GOAWAY {
            let is_refusal = matches!(code(4), Some(COMPRESSION_ERROR | ENHANCE_YOUR_CALM));
            self.streams.clear();
            return is_refusal.then_some(Sent::Refusal);
        }
        if !self.streams.contains(&frame.stream) {
            return None;
        }
        match frame.kind {
            HEADERS => {
                self.done(frame.stream);
                let is_lone =
                    frame.flags == END_STREAM | END_HEADERS && frame.length <= LONE_STATUS;
                is_lone.then_some(Sent::Refusal)
            }
            RST_STREAM if code(0) != Some(PROTOCOL_ERROR) => {
                self.done(frame.stream);
                None
            }
            RST_STREAM if self.owes_table_size => {
                self.done(frame.stream);
                Some(Sent::Refusal)
            }
            RST_STREAM => Some(Sent::Reset),
            _ => None,
        }
    }

    /// Removes a stream that is answered.
    pub(super) fn done(&mut self, stream: u32) {
        self.streams.retain(|large| *large != stream);
    }
}

fn lowers_table_size(frame: Frame, payload: &[u8]) -> bool {
    let Some(settings) = payload.get(..frame.length) else {
        // The payload is incomplete.
        return true;
    };
    settings.chunks_exact(6).any(|setting| {
        let (name, value) = ([setting[0], setting[1]], [2, 3, 4, 5].map(|at| setting[at]));
        u16::from_be_bytes(name) == TABLE_SIZE && u32::from_be_bytes(value) < USUAL_TABLE_SIZE
    })
}

/// Bytes of the frame that resets a stream.
pub(super) const RESET: usize = HEADER + 4;

/// An answer 414 without a body, and the end of its stream without an error. Its fields enter no header table.
pub(super) fn too_long(stream: u32) -> Vec<u8> {
    // `:status` and `content-length` by index, each with a literal value.
    const BLOCK: &[u8] = &[0x08, 3, b'4', b'1', b'4', 0x0f, 0x0d, 1, b'0'];
    let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, stream, BLOCK);
    bytes.extend(frame(RST_STREAM, 0, stream, &[0; 4]));
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_wherever_they_are_cut() {
        let all = [
            frame(SETTINGS, 0, 0, &[0; 12]),
            frame(HEADERS, END_HEADERS, 1, &[7; 300]),
            frame(0, END_STREAM, 1, &[]),
            frame(CONTINUATION, END_HEADERS, u32::MAX >> 1, &[9]),
        ];
        let bytes = all.concat();
        for size in 1..bytes.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            for mut piece in bytes.chunks(size) {
                while let Some(frame) = frames.next(&mut piece) {
                    found.push((frame.kind, frame.stream, frame.length));
                }
                assert!(piece.is_empty());
            }
            let want =
                [(SETTINGS, 0, 12), (HEADERS, 1, 300), (0, 1, 0), (CONTINUATION, u32::MAX >> 1, 1)];
            assert_eq!(found, want, "{size}");
            let mut passed = Frames::default();
            passed.pass(&bytes);
            assert_eq!((passed.have, passed.rest), (0, 0));
        }
    }

    /// Calls `see` with each frame and its payload.
    fn each(bytes: &[u8], mut see: impl FnMut(Frame, &[u8])) {
        let (mut frames, mut rest) = (Frames::default(), bytes);
        while let Some(frame) = frames.next(&mut rest) {
            see(frame, rest);
        }
    }

    fn with_head_of(bytes: usize) -> LargeHeads {
        let mut large = LargeHeads::default();
        let half = vec![0; bytes / 2];
        let head = [frame(HEADERS, 0, 5, &half), frame(CONTINUATION, END_HEADERS, 5, &half)];
        each(&head.concat(), |frame, payload| large.came(frame, payload));
        large
    }

    fn sent(large: &mut LargeHeads, bytes: &[u8]) -> Vec<Sent> {
        let mut found = Vec::new();
        each(bytes, |frame, payload| found.extend(large.sent(frame, payload)));
        found
    }

    #[test]
    fn what_becomes_of_a_large_head_is_seen() {
        let reset = |code: u32| frame(RST_STREAM, 0, 5, &code.to_be_bytes());
        assert!(with_head_of(LARGE - 2).is_empty());
        let mut large = with_head_of(LARGE + 2);
        let other = frame(RST_STREAM, 0, 7, &PROTOCOL_ERROR.to_be_bytes());
        assert!(sent(&mut large, &other).is_empty());
        for _ in 0..2 {
            assert_eq!(sent(&mut large, &reset(PROTOCOL_ERROR)), [Sent::Reset]);
        }
        large.done(5);
        assert!(sent(&mut large, &reset(PROTOCOL_ERROR)).is_empty());
        let usual = frame(HEADERS, END_HEADERS, 5, &[0; 4]);
        assert!(sent(&mut with_head_of(1 << 20), &usual).is_empty());
        let lone = frame(HEADERS, END_HEADERS | END_STREAM, 5, &[0; LONE_STATUS]);
        let both = [lone, reset(PROTOCOL_ERROR)].concat();
        assert_eq!(sent(&mut with_head_of(1 << 20), &both), [Sent::Refusal]);
        assert!(sent(&mut with_head_of(1 << 20), &reset(8)).is_empty());
        for (code, is_refusal) in [(ENHANCE_YOUR_CALM, true), (0, false)] {
            let away = frame(GOAWAY, 0, 0, &[[0; 4], code.to_be_bytes()].concat());
            let found = sent(&mut with_head_of(1 << 20), &away);
            assert_eq!(found.contains(&Sent::Refusal), is_refusal, "{code}");
        }
    }

    #[test]
    fn no_status_is_added_where_a_head_would_have_to_begin_otherwise() {
        for (size, want) in [(4096_u32, Sent::Reset), (4095, Sent::Refusal)] {
            let mut large = with_head_of(1 << 20);
            let setting = [&TABLE_SIZE.to_be_bytes()[..], &size.to_be_bytes()].concat();
            each(&frame(SETTINGS, 0, 0, &setting), |frame, payload| large.came(frame, payload));
            let reset = frame(RST_STREAM, 0, 5, &PROTOCOL_ERROR.to_be_bytes());
            assert_eq!(sent(&mut large, &reset), [want], "{size}");
        }
    }
}
