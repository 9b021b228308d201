//! As much of a Redis client as these stories need.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A program of a user has such a timeout as well: it is how it notices a frozen leader.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Redis {
    stream: BufReader<TcpStream>,
}

impl Redis {
    pub(crate) fn connect(port: u16) -> io::Result<Redis> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
        Ok(Redis { stream: BufReader::new(stream) })
    }

    /// Sends one command and returns the reply: a text without its length, anything else as it is.
    pub(crate) fn ask(&mut self, command: &str) -> io::Result<String> {
        let words: Vec<&str> = command.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        let first = self.line()?;
        if first.starts_with('$') && first != "$-1" { self.line() } else { Ok(first) }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
