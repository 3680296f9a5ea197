//! A child process with a recorded log, which ends with its test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::DEADLINE;

/// A running process. Dropping it kills it; if the test panics, its log is printed.
pub(crate) struct Process {
    name: String,
    child: Child,
    log: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts `command`; both of its output streams go to the log.
    pub(crate) fn start(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let log = Arc::new(Mutex::new(String::new()));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let readers = vec![
            keep_log(stdout.expect("stdout is piped"), log.clone()),
            keep_log(stderr.expect("stderr is piped"), log.clone()),
        ];
        Self { name: name.to_owned(), child, log, readers }
    }

    /// The output so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no reader panics").clone()
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
        if status.is_some() {
            self.readers.drain(..).for_each(|reader| reader.join().expect("it reads"));
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

fn keep_log(
    stream: impl std::io::Read + Send + 'static,
    log: Arc<Mutex<String>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { break };
            let mut log = log.lock().expect("no reader panics");
            log.push_str(&line);
            log.push('\n');
        }
    })
}
