//! A blocking HTTP/1.1 connection to 127.0.0.1 that writes ready bodies and reads answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// One keep-alive connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
    head: String,
}

/// Status of an answer and its body.
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body of a success; anything else is an error with the server's words.
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

    /// Lets the requests that follow get `path`.
    pub fn get(&mut self, path: &str) {
        self.head = get_head(self.address, path);
    }

    fn new(address: SocketAddr, head: String) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other("the load generator talks to the loopback only"));
        }
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { reader: BufReader::with_capacity(1 << 20, stream), address, head })
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
        self.reader.get_mut().write_all(&request)?;
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("bad answer {line:?}")))?;
        let mut length = Some(0);
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                return Ok((status, length));
            } else if let Some(value) = header.strip_prefix("content-length:") {
                length = Some(value.trim().parse().map_err(io::Error::other)?);
            } else if header == "transfer-encoding: chunked" {
                length = None;
            }
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

fn get_head(address: SocketAddr, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n")
}
