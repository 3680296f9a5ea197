//! A child process with a recorded log, which ends with its test.
//!
//! What a process has written before it answers a request is in its log when the answer is here: the log reads what is
//! in the pipe, and does not wait for the thread that empties the pipe.

use std::io::{ErrorKind, PipeReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{ioctl_fionbio, retry_on_intr};
use rustix::process::{Pid, Signal, kill_process};

use super::DEADLINE;

/// A running process. Dropping it kills it; if the test panics, its log is printed.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<Output>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`; both of its output streams go to the log.
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        let (pipe, writer) = std::io::pipe().expect("a pipe");
        ioctl_fionbio(&pipe, true).expect("a pipe that does not block");
        let other = writer.try_clone().expect("a second end");
        command.stdin(Stdio::null()).stdout(writer).stderr(other);
        let child = command.spawn().unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        // The command would keep the pipe open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let waited_for = pipe.try_clone().expect("a second end");
        let output = Arc::new(Mutex::new(Output { pipe, bytes: Vec::new(), is_over: false }));
        let reader = Some(empty_pipe(waited_for, output.clone()));
        Self { name: name.to_owned(), child, output, reader }
    }

    /// The lines so far.
    pub(crate) fn log(&self) -> String {
        self.output.lock().expect("no reader panics").lines()
    }

    /// Waits for a line of the log for which `find` returns a value. If the process ends first,
    /// returns its log.
    pub(crate) fn wait_for_line<T>(
        &mut self,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T, String> {
        let start = Instant::now();
        loop {
            let ended = self.ended();
            if let Some(found) = self.log().lines().find_map(&find) {
                return Ok(found);
            }
            if let Some(status) = ended {
                return Err(format!("{} ended ({status}):\n{}", self.name, self.log()));
            }
            assert!(start.elapsed() < DEADLINE, "{}: no {what}:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status if it has ended; then the log is complete.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child can be waited for");
        if status.is_some()
            && let Some(reader) = self.reader.take()
        {
            reader.join().expect("it reads");
        }
        status
    }

    /// Kills it with SIGKILL, and waits.
    pub(crate) fn kill(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for");
    }

    /// Asks it to end (SIGTERM), and waits.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the process runs");
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(start.elapsed() < DEADLINE, "{} does not end:\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            println!("--- log of {}, its end\n{}", self.name, tail.join("\n"));
        }
    }
}

/// What a process has written, and the pipe with the rest.
struct Output {
    pipe: PipeReader,
    bytes: Vec<u8>,
    /// Nobody has the other end of the pipe any more.
    is_over: bool,
}

impl Output {
    /// Reads all that is in the pipe.
    fn read(&mut self) {
        match self.pipe.read_to_end(&mut self.bytes) {
            Ok(_) => self.is_over = true,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
    }

    /// All lines. The last one may lack its end only when nothing can follow it.
    fn lines(&mut self) -> String {
        self.read();
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if self.is_over { self.bytes.len() } else { whole };
        String::from_utf8_lossy(&self.bytes[..end]).into_owned()
    }
}

/// Empties the pipe whenever something is in it: a process must never wait for its log.
fn empty_pipe(pipe: PipeReader, output: Arc<Mutex<Output>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        loop {
            let wait = || poll(&mut [PollFd::new(&pipe, PollFlags::IN)], None);
            retry_on_intr(wait).expect("a pipe");
            let mut output = output.lock().expect("no reader panics");
            output.read();
            if output.is_over {
                return;
            }
        }
    })
}
