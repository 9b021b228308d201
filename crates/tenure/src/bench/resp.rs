//! Just enough of the Redis protocol to put a load on a server: pipelined commands, plain replies.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::exit::Failure;

/// Room that is made for each read.
const READ_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Resp {
    socket: TcpStream,
    out: BytesMut,
    arrived: BytesMut,
}

/// A reply of the kinds that the load's commands have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Line(Bytes),
    Error(Bytes),
    Number(i64),
    Bulk(Bytes),
    Nil,
}

impl Resp {
    pub(crate) async fn connect(port: u16) -> std::io::Result<Resp> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        Ok(Resp { socket, out: BytesMut::new(), arrived: BytesMut::new() })
    }

    /// Adds a command to the output. Sends nothing yet.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) {
        self.out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.out.extend_from_slice(word);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    pub(crate) async fn flush(&mut self) -> Result<(), Failure> {
        while !self.out.is_empty() {
            self.socket.write_buf(&mut self.out).await?;
        }
        Ok(())
    }

    /// Waits until replies have come, and adds all of them to `into`. Cancel-safe.
    pub(crate) async fn receive(&mut self, into: &mut Vec<Reply>) -> Result<(), Failure> {
        let before = into.len();
        while into.len() == before {
            self.arrived.reserve(READ_BYTES);
            if self.socket.read_buf(&mut self.arrived).await? == 0 {
                return Err(Failure::system("the Redis server closed the connection"));
            }
            while let Some(reply) = split(&mut self.arrived)? {
                into.push(reply);
            }
        }
        Ok(())
    }

    /// One command and its reply.
    pub(crate) async fn once(&mut self, words: &[&[u8]]) -> Result<Reply, Failure> {
        self.ask(words);
        self.flush().await?;
        let mut replies = Vec::new();
        self.receive(&mut replies).await?;
        replies.pop().ok_or_else(|| Failure::internal("no reply"))
    }
}

/// Takes one whole reply off the front.
fn split(arrived: &mut BytesMut) -> Result<Option<Reply>, Failure> {
    let Some(end) = arrived.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let number = || {
        let text = std::str::from_utf8(&arrived[1..end]).ok()?;
        text.parse::<i64>().ok()
    };
    let unexpected_reply = || Failure::internal("unexpected reply from the Redis server");
    let reply = match arrived[0] {
        b'+' | b'-' => None,
        b':' => Some(Reply::Number(number().ok_or_else(unexpected_reply)?)),
        b'$' => match usize::try_from(number().ok_or_else(unexpected_reply)?) {
            Err(_) => Some(Reply::Nil),
            Ok(length) if arrived.len() < end + 2 + length + 2 => return Ok(None),
            Ok(length) => {
                arrived.advance(end + 2);
                let bulk = arrived.split_to(length).freeze();
                arrived.advance(2);
                return Ok(Some(Reply::Bulk(bulk)));
            }
        },
        _ => return Err(unexpected_reply()),
    };
    let line = arrived.split_to(end);
    arrived.advance(2);
    let is_error = line[0] == b'-';
    let text = line.freeze().slice(1..);
    Ok(Some(reply.unwrap_or(if is_error { Reply::Error(text) } else { Reply::Line(text) })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_split_wherever_the_reads_end() {
        let bytes = b"+OK\r\n:42\r\n$3\r\na\r\n\r\n$-1\r\n-ERR no\r\n";
        let whole = [
            Reply::Line("OK".into()),
            Reply::Number(42),
            Reply::Bulk("a\r\n".into()),
            Reply::Nil,
            Reply::Error("ERR no".into()),
        ];
        for cut in 0..bytes.len() {
            let mut arrived = BytesMut::new();
            let mut replies = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                arrived.extend_from_slice(part);
                while let Some(reply) = split(&mut arrived).unwrap() {
                    replies.push(reply);
                }
            }
            assert_eq!(replies, whole, "cut at {cut}");
        }
    }
}
