//! Reads a trace of system calls (`strace -f -y`) and checks the order that an acknowledgement
//! promises: the record is written, the file is synced, and only then the answer is sent.
//!
//! Each request carries a marker in its body, which is copied to its record. A call begins at the
//! line with its arguments, and ends at the line with its result.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The argument of `strace -e`.
pub(crate) const CALLS: &str = "trace=read,readv,recvfrom,recvmsg,write,writev,pwrite64,pwritev,\
                                pwritev2,sendto,sendmsg,fsync,fdatasync,sync_file_range";

/// Returns the number of answers 204; an error names an answer that was sent too early.
pub(crate) fn check(trace: &str, data: &str, marker: &str) -> Result<usize, String> {
    let mut state = State::default();
    // The first half of a call that a line of another thread split, by thread.
    let mut unfinished: HashMap<&str, &str> = HashMap::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            state.begin(thread, begun, data, marker)?;
            unfinished.insert(thread, begun);
        } else if let Some(rest) = call.strip_prefix("<... ") {
            // Read bytes are after `resumed>`, written bytes before it.
            let begun = unfinished.remove(thread).unwrap_or_default();
            state.end(thread, begun, rest, data, marker);
        } else {
            state.begin(thread, call, data, marker)?;
            state.end(thread, call, call, data, marker);
        }
    }
    Ok(state.answers)
}

#[derive(Default)]
struct State {
    /// Markers of requests by socket.
    asked: HashMap<String, String>,
    /// Markers in written records, by file.
    written: HashMap<String, BTreeSet<String>>,
    /// Markers that a sync in progress covers, by thread.
    syncing: BTreeMap<String, BTreeSet<String>>,
    synced: BTreeSet<String>,
    answers: usize,
}

impl State {
    fn begin(&mut self, thread: &str, call: &str, data: &str, marker: &str) -> Result<(), String> {
        let Some((name, file)) = name_and_file(call) else { return Ok(()) };
        if matches!(name, "fsync" | "fdatasync") && file.contains(data) {
            let covered = self.written.get(file).cloned().unwrap_or_default();
            self.syncing.insert(thread.to_owned(), covered);
        }
        let is_answer = !file.contains(data) && is_write(name) && call.contains("HTTP/1.1 204");
        if is_answer && let Some(asked) = self.asked.get(file) {
            self.answers += 1;
            if !self.synced.contains(asked) {
                return Err(format!("the answer to {marker}{asked} left before its sync: {call}"));
            }
        }
        Ok(())
    }

    fn end(&mut self, thread: &str, begun: &str, ended: &str, data: &str, marker: &str) {
        let Some((name, file)) = name_and_file(begun) else { return };
        let succeeded = !ended.contains(" = -1 ");
        let found = if begun == ended {
            markers(begun, marker)
        } else {
            markers(begun, marker).union(&markers(ended, marker)).cloned().collect()
        };
        if is_write(name) && file.contains(data) && succeeded {
            self.written.entry(file.to_owned()).or_default().extend(found);
        } else if matches!(name, "read" | "readv" | "recvfrom" | "recvmsg") && !file.contains(data)
        {
            if let Some(last) = found.into_iter().next_back() {
                self.asked.insert(file.to_owned(), last);
            }
        } else if matches!(name, "fsync" | "fdatasync")
            && let Some(covered) = self.syncing.remove(thread)
            && succeeded
        {
            self.synced.extend(covered);
        }
    }
}

fn is_write(name: &str) -> bool {
    matches!(name, "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg")
}

/// `fdatasync(12</data/wal/1>) = 0` to `fdatasync` and `12</data/wal/1>`.
fn name_and_file(call: &str) -> Option<(&str, &str)> {
    let (name, rest) = call.split_once('(')?;
    let end = rest.find('>')? + 1;
    Some((name, &rest[..end]))
}

/// The numbers after each `marker`.
fn markers(text: &str, marker: &str) -> BTreeSet<String> {
    let numbers = text.match_indices(marker).map(|(at, _)| {
        text[at + marker.len()..].chars().take_while(char::is_ascii_digit).collect::<String>()
    });
    numbers.filter(|number| !number.is_empty()).collect()
}
