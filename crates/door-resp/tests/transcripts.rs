//! The page's transcripts over a socket, against a real hub.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use support::broker::Broker;
use support::pattern::Bindings;
use support::transcript::{Act, Transcript, lines, read};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Transcripts that let more time pass than this are for a clock that can be turned.
const REAL_TIME_MAX: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transcript_of_the_page_holds_over_a_socket() {
    let mut failures = Vec::new();
    for transcript in read() {
        let long = |act: &Act| matches!(act, Act::Pass(time) if *time > REAL_TIME_MAX);
        if transcript.steps.iter().any(|step| long(&step.act)) {
            continue;
        }
        if let Err(failure) = play(&transcript).await {
            failures.push(format!("{}: {failure}", transcript.title));
        }
    }
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}

async fn play(transcript: &Transcript) -> Result<(), String> {
    let broker = if transcript.with_keys { Broker::with_keys().await } else { Broker::start().await };
    let mut peers: BTreeMap<usize, Peer> = BTreeMap::new();
    let mut bindings = Bindings::default();
    for step in &transcript.steps {
        let say = |failure: String| format!("line {}: {failure}", step.line);
        match &step.act {
            Act::Say { client, words } => {
                let peer = peer(&mut peers, *client, &broker).await;
                peer.say(&bindings.fill(words)).await;
            }
            Act::Send { client, bytes } => peer(&mut peers, *client, &broker).await.send(bytes).await,
            Act::Answer { client, pattern } => {
                let peer = peer(&mut peers, *client, &broker).await;
                peer.expect(pattern, &mut bindings).await.map_err(say)?;
            }
            Act::Closed { client } => {
                peer(&mut peers, *client, &broker).await.expect_close().await.map_err(say)?;
            }
            Act::Close { client } => {
                peers.remove(client);
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            Act::Pass(time) => tokio::time::sleep(*time).await,
        }
    }
    for (client, peer) in &mut peers {
        peer.expect_nothing()
            .await
            .map_err(|failure| format!("at the end, to client {client}: {failure}"))?;
    }
    Ok(())
}

async fn peer<'a>(peers: &'a mut BTreeMap<usize, Peer>, client: usize, broker: &Broker) -> &'a mut Peer {
    if let std::collections::btree_map::Entry::Vacant(place) = peers.entry(client) {
        let stream = TcpStream::connect(broker.address).await.expect("the door is open");
        place.insert(Peer { stream, bytes: Vec::new(), lines: VecDeque::new() });
    }
    peers.get_mut(&client).expect("as above")
}

struct Peer {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// Lines of replies, and whether each is the last of its reply.
    lines: VecDeque<(String, bool)>,
}

impl Peer {
    async fn say(&mut self, words: &str) {
        self.send(&support::transcript::as_array(words)).await;
        // What the next one says may depend on it: a blocking command must be heard before it.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the connection is open");
    }

    async fn expect(&mut self, pattern: &str, bindings: &mut Bindings) -> Result<(), String> {
        let (mut line, mut last) =
            self.next_line().await.ok_or_else(|| format!("no answer, but {pattern:?} was due"))?;
        if pattern == "…" {
            while !last {
                (line, last) = self.lines.pop_front().ok_or("a reply without end")?;
            }
            let _ = line;
            return Ok(());
        }
        if bindings.fits(pattern, &line) { Ok(()) } else { Err(format!("{line:?}, not {pattern:?}")) }
    }

    async fn expect_close(&mut self) -> Result<(), String> {
        match self.next_line().await {
            None if self.bytes.is_empty() => Ok(()),
            None => Err("half an answer".into()),
            Some((line, _)) => Err(format!("{line:?} instead of a closed connection")),
        }
    }

    async fn expect_nothing(&mut self) -> Result<(), String> {
        let mut more = [0; 1024];
        match timeout(Duration::from_millis(20), self.stream.read(&mut more)).await {
            Ok(Ok(count)) if count > 0 => {
                self.bytes.extend_from_slice(&more[..count]);
            }
            _ => {}
        }
        match self.lines.pop_front() {
            None if self.bytes.is_empty() => Ok(()),
            None => Err(format!("{:?} is left over", String::from_utf8_lossy(&self.bytes))),
            Some((line, _)) => Err(format!("{line:?} is left over")),
        }
    }

    async fn next_line(&mut self) -> Option<(String, bool)> {
        while self.lines.is_empty() {
            if let Some((lines, length)) = lines(&self.bytes) {
                self.bytes.drain(..length);
                let last = lines.len() - 1;
                self.lines.extend(lines.into_iter().enumerate().map(|(at, line)| (line, at == last)));
                break;
            }
            let mut more = [0; 16 * 1024];
            match timeout(TIMEOUT, self.stream.read(&mut more)).await {
                Ok(Ok(count)) if count > 0 => self.bytes.extend_from_slice(&more[..count]),
                _ => return None,
            }
        }
        self.lines.pop_front()
    }
}
