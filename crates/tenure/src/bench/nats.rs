//! The topic load on a temporary NATS server, over its text protocol.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::load::BODY_BYTES;
use super::topics::{Counter, Server, TOPIC};
use crate::exit::Failure;
use crate::spawned::{Process, Usage};

const START_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Nats {
    process: Process,
    port: u16,
}

impl Nats {
    pub(crate) async fn start(directory: &Path) -> Result<Nats, Failure> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("nats-server");
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]).stdout(Stdio::null());
        let log = directory.join("nats.log");
        let process = Process::start(&mut command, &log).map_err(|failure| {
            Failure::system(format!("{failure}: to compare with NATS, nats-server has to be in the PATH"))
        })?;
        let nats = Nats { process, port };
        let since = Instant::now();
        while nats.connect().await.is_err() {
            if since.elapsed() > START_TIMEOUT {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Failure::system(format!(
                    "nats-server does not answer. Its output:\n{}",
                    said.trim_end()
                )));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(nats)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }

    /// Connects and shakes hands: the server answers the ping when it has understood everything before it.
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let options = b"CONNECT {\"verbose\":false,\"pedantic\":false,\"echo\":false}\r\n";
        stream.write_all(options).await?;
        pong(&mut stream).await?;
        Ok(stream)
    }
}

async fn pong(stream: &mut TcpStream) -> Result<(), Failure> {
    stream.write_all(b"PING\r\n").await?;
    let mut arrived = Vec::new();
    while !arrived.ends_with(b"PONG\r\n") {
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(Failure::internal("the NATS server closed the connection"));
        }
    }
    Ok(())
}

impl Server for &Nats {
    async fn publisher(&self) -> Result<TcpStream, Failure> {
        self.connect().await
    }

    async fn subscriber(&self) -> Result<(TcpStream, BytesMut), Failure> {
        let mut stream = self.connect().await?;
        stream.write_all(format!("SUB {TOPIC} 1\r\n").as_bytes()).await?;
        pong(&mut stream).await?;
        Ok((stream, BytesMut::new()))
    }

    fn messages(&self, count: usize) -> Bytes {
        let mut message = format!("PUB {TOPIC} {BODY_BYTES}\r\n").into_bytes();
        message.resize(message.len() + BODY_BYTES, b'x');
        message.extend_from_slice(b"\r\n");
        message.repeat(count).into()
    }

    fn counter(&self) -> Counter {
        count
    }
}

fn count(arrived: &mut BytesMut) -> Result<usize, Failure> {
    let (mut at, mut count) = (0, 0);
    loop {
        let rest = &arrived[at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
        let line = rest[..end].trim_ascii_end();
        if line == b"PING" {
            // Sent when it has not heard from a client for minutes: no run lasts so long.
            at += end + 1;
            continue;
        }
        let length =
            line.rsplit(|byte| *byte == b' ').next().and_then(|text| str::from_utf8(text).ok()?.parse().ok());
        let (true, Some(length)) = (line.starts_with(b"MSG "), length) else {
            let said = String::from_utf8_lossy(line).into_owned();
            return Err(Failure::internal(format!("the NATS server said: {said}")));
        };
        let length: usize = length;
        let next = end + 1 + length + 2;
        if rest.len() < next {
            break;
        }
        at += next;
        count += usize::from(length == BODY_BYTES);
    }
    arrived.advance(at);
    Ok(count)
}
