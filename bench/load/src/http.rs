//! A blocking HTTP/1.1 connection to 127.0.0.1 that writes prepared bodies and reads answers.
//!
//! It reconnects after `Connection: close`, which promkairos sends if it has not read a body, and
//! if the connection was closed before the first byte of an answer: then the same request is sent
//! again, which does not change what a server has already accepted. A truncated answer is an error.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Most attempts of a request while the server closes before it answers.
const ATTEMPTS: usize = 3;

/// One connection at a time, kept as long as the server keeps it open.
pub struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
    head: String,
    /// Whether the server announced that it closes the connection.
    closing: bool,
}

/// Status and body of an answer.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body of a success; any other status is an error with the server's text.
    pub fn expect_success(self) -> io::Result<Vec<u8>> {
        if (200..300).contains(&self.status) {
            return Ok(self.body);
        }
        let text = String::from_utf8_lossy(&self.body);
        Err(io::Error::other(format!("status {}: {text}", self.status)))
    }
}

impl Connection {
    /// Connects; `path` and `headers` (each ending in CRLF) are the same for every request.
    pub fn open(address: SocketAddr, path: &str, headers: &str) -> io::Result<Self> {
        Self::new(address, format!("POST {path} HTTP/1.1\r\nHost: {address}\r\n{headers}"))
    }

    /// Connects for requests that only get `path`: their bodies are empty.
    pub fn open_get(address: SocketAddr, path: &str) -> io::Result<Self> {
        Self::new(address, get_head(address, path))
    }

    /// Makes later requests GET `path`.
    pub fn get(&mut self, path: &str) {
        self.head = get_head(self.address, path);
    }

    fn new(address: SocketAddr, head: String) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other("the load generator talks to the loopback only"));
        }
        Ok(Self { reader: connect(address)?, address, head, closing: false })
    }

    fn connect_anew(&mut self) -> io::Result<()> {
        self.reader = connect(self.address)?;
        self.closing = false;
        Ok(())
    }

    /// Sends `body` and reads the whole answer.
    pub fn ask(&mut self, body: &[u8]) -> io::Result<Answer> {
        let length = self.begin(body)?;
        match length {
            (status, Some(length)) => {
                let mut collected = vec![0; length];
                self.reader.read_exact(&mut collected)?;
                Ok(Answer { status, body: collected })
            }
            (status, None) => {
                let mut collected = Vec::new();
                while let Some(chunk) = self.next_chunk()? {
                    collected.extend_from_slice(&chunk);
                }
                Ok(Answer { status, body: collected })
            }
        }
    }

    /// Sends `body` and reads the head of the answer: its status, and its length unless chunked.
    pub fn begin(&mut self, body: &[u8]) -> io::Result<(u16, Option<usize>)> {
        let mut request = Vec::with_capacity(self.head.len() + 40 + body.len());
        write!(request, "{}Content-Length: {}\r\n\r\n", self.head, body.len())?;
        request.extend_from_slice(body);
        if self.closing {
            self.connect_anew()?;
        }
        let mut attempts = 1;
        let mut line = loop {
            match self.first_line(&request)? {
                Some(line) => break line,
                None if attempts < ATTEMPTS => self.connect_anew()?,
                None => return Err(io::Error::other("closed before it answered")),
            }
            attempts += 1;
        };
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("bad answer {line:?}")))?;
        let mut length = Some(0);
        loop {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(io::Error::other("an answer that is cut off"));
            }
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                return Ok((status, length));
            } else if let Some(value) = header.strip_prefix("content-length:") {
                length = Some(value.trim().parse().map_err(io::Error::other)?);
            } else if header == "transfer-encoding: chunked" {
                length = None;
            } else if header == "connection: close" {
                self.closing = true;
            }
        }
    }

    /// Sends a request; returns the first line of the answer, `None` if the connection was closed
    /// before its first byte.
    fn first_line(&mut self, request: &[u8]) -> io::Result<Option<String>> {
        match self.reader.get_mut().write_all(request) {
            // A server may answer without reading the whole body.
            Err(error) if !is_closed(&error) => return Err(error),
            _ => {}
        }
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(line)),
            Err(error) if line.is_empty() && is_closed(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The next chunk of a chunked answer; `None` at its end.
    pub fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; length + 2];
        self.reader.read_exact(&mut chunk)?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(1 << 20, stream))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    )
}

fn get_head(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n")
}

#[cfg(test)]
pub mod tests {
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    use super::*;

    /// The header that announces the end of the connection.
    const CLOSE: &str = "Connection: close\r\n";

    /// A server's reaction to a request.
    #[derive(Clone, Copy)]
    pub enum Act {
        /// Answers and keeps the connection.
        Keep(u16),
        /// Answers, announces that it closes the connection, and closes it.
        Close(u16),
        /// Answers, and closes the connection without announcing it.
        CloseSilently(u16),
        /// Closes the connection without an answer.
        Nothing,
        /// Sends the beginning of the first line.
        CutOff,
    }

    /// A server that reacts to consecutive requests with these acts; returns the bodies of the
    /// requests.
    pub fn serve(acts: &'static [Act]) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || {
            let (mut bodies, mut kept) = (Vec::new(), None);
            for act in acts {
                let mut stream = kept.take().unwrap_or_else(|| {
                    let (stream, _) = listener.accept().expect("a client");
                    BufReader::new(stream)
                });
                bodies.push(read_request(&mut stream));
                if act_on(*act, stream.get_mut()) {
                    kept = Some(stream);
                }
            }
            bodies
        });
        (address, server)
    }

    fn read_request(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().expect("a length");
            }
            line.clear();
            stream.read_line(&mut line).expect("a head");
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("a body");
        body
    }

    /// Whether the connection is kept.
    fn act_on(act: Act, stream: &mut TcpStream) -> bool {
        let (status, header, keeps) = match act {
            Act::Keep(status) => (status, "", true),
            Act::Close(status) => (status, CLOSE, false),
            Act::CloseSilently(status) => (status, "", false),
            Act::Nothing => return false,
            Act::CutOff => {
                stream.write_all(b"HTTP/1.1 2").expect("written");
                return false;
            }
        };
        let answer = format!("HTTP/1.1 {status} Words\r\n{header}Content-Length: 2\r\n\r\nok");
        stream.write_all(answer.as_bytes()).expect("written");
        keeps
    }

    #[test]
    fn it_connects_anew_where_the_server_has_closed_and_sends_the_same_again() {
        let (address, server) = serve(&[
            Act::Keep(200),
            Act::Close(503),
            Act::CloseSilently(200),
            Act::Nothing,
            Act::Keep(204),
        ]);
        let mut connection = Connection::open(address, "/", "").expect("connected");
        let statuses = ["a", "b", "c", "d"]
            .map(|body| connection.ask(body.as_bytes()).expect("an answer").status);
        assert_eq!(statuses, [200, 503, 200, 204]);
        assert_eq!(server.join().expect("a server"), [b"a", b"b", b"c", b"d", b"d"]);
    }

    #[test]
    fn a_server_that_never_answers_and_an_answer_cut_off_are_errors() {
        for acts in [&[Act::Nothing; ATTEMPTS][..], &[Act::CutOff]] {
            let (address, server) = serve(acts);
            let mut connection = Connection::open(address, "/", "").expect("connected");
            assert!(connection.ask(b"a").is_err());
            assert_eq!(server.join().expect("a server").len(), acts.len());
        }
    }
}
