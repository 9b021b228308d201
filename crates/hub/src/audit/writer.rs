//! The thread that writes the log: it writes pending lines together and syncs at most once a second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::AuditMessage;
use super::file::LogFile;
use super::line::{AuditField, AuditLine, AuditOutcome};
use crate::clock::wall_clock;
use crate::counters::Counters;

/// A power failure loses at most this much of the log.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// How long the refusals of one unknown peer are counted before one line reports them.
const GATHER: Duration = Duration::from_secs(1);
/// For how many unknown peers refusals are merged; beyond that they are written early.
const UNAUTHENTICATED_PEERS_MAX: usize = 1_024;
/// How much is written at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// How often the broker's own log reports that the audit log cannot be written.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

type UnauthenticatedPeer = (&'static str, Option<IpAddr>, &'static str);

pub(super) struct AuditWriter {
    file: Box<dyn LogFile>,
    /// Lines that found the queue full.
    dropped: Arc<AtomicU64>,
    counters: Arc<Counters>,
    chunk: String,
    chunk_lines: u64,
    /// Lost lines that have not been reported yet.
    lost: u64,
    /// Refusals of unknown peers since their last line: the last of them, and their number.
    gathered: HashMap<UnauthenticatedPeer, RepeatedLine>,
    unsynced_since: Option<Instant>,
    complained_at: Option<Instant>,
}

struct RepeatedLine {
    since: Instant,
    last: Option<Box<AuditLine>>,
    times: u64,
}

impl AuditWriter {
    pub(super) fn new(
        file: Box<dyn LogFile>,
        dropped: Arc<AtomicU64>,
        counters: Arc<Counters>,
    ) -> AuditWriter {
        AuditWriter {
            file,
            dropped,
            counters,
            chunk: String::new(),
            chunk_lines: 0,
            lost: 0,
            gathered: HashMap::new(),
            unsynced_since: None,
            complained_at: None,
        }
    }

    /// Runs until the last handle is dropped.
    pub(super) fn run(&mut self, lines: &Receiver<AuditMessage>) {
        loop {
            let mut next = match lines.recv_timeout(SYNC_INTERVAL) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.close();
                    return;
                }
            };
            while let Some(message) = next {
                match message {
                    AuditMessage::Line(line) => self.take(line),
                    AuditMessage::Close(done) => {
                        self.close();
                        let _ = done.try_send(());
                    }
                }
                next = lines.try_recv().ok();
            }
            self.write_gathered(Instant::now());
            self.write();
            if self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_INTERVAL) {
                self.sync();
            }
        }
    }

    fn close(&mut self) {
        for gathered in std::mem::take(&mut self.gathered).into_values() {
            self.write_merged(gathered);
        }
        self.write();
        self.sync();
    }

    /// Writes the first refusal of an unknown peer at once and merges the following ones of the next second
    /// into one line: an unknown peer must not be able to push everything else out of the log.
    fn take(&mut self, line: Box<AuditLine>) {
        let Some(stranger) = line.unauthenticated_peer() else { return self.add(&line) };
        if let Some(gathered) = self.gathered.get_mut(&stranger) {
            gathered.last = Some(line);
            gathered.times += 1;
            return;
        }
        if self.gathered.len() >= UNAUTHENTICATED_PEERS_MAX {
            for gathered in std::mem::take(&mut self.gathered).into_values() {
                self.write_merged(gathered);
            }
        }
        self.add(&line);
        self.gathered.insert(stranger, RepeatedLine { since: Instant::now(), last: None, times: 0 });
    }

    fn write_gathered(&mut self, now: Instant) {
        let is_due = |_: &UnauthenticatedPeer, gathered: &mut RepeatedLine| {
            now.duration_since(gathered.since) >= GATHER
        };
        let due: Vec<RepeatedLine> = self.gathered.extract_if(is_due).map(|(_, gathered)| gathered).collect();
        for gathered in due {
            self.write_merged(gathered);
        }
    }

    fn write_merged(&mut self, gathered: RepeatedLine) {
        if let Some(mut last) = gathered.last {
            let times = i64::try_from(gathered.times).unwrap_or(i64::MAX);
            last.fields.push(("times", AuditField::Number(times)));
            self.add(&last);
        }
    }

    fn add(&mut self, line: &AuditLine) {
        line.write(&mut self.chunk);
        self.chunk_lines += 1;
        if self.chunk.len() >= CHUNK_BYTES {
            self.write();
        }
    }

    /// Writes the pending lines. Lost lines are reported first.
    fn write(&mut self) {
        self.count_lost(self.dropped.swap(0, Ordering::Relaxed));
        if self.lost > 0 {
            let mut line = AuditLine::new(wall_clock(), None, "lines-lost", AuditOutcome::Done);
            line.fields.push(("count", AuditField::Number(i64::try_from(self.lost).unwrap_or(i64::MAX))));
            let mut notice = String::new();
            line.write(&mut notice);
            match self.file.append(notice.as_bytes()) {
                Ok(()) => {
                    tracing::warn!(
                        lines = self.lost,
                        "audit log lines were lost; the audit log says how many"
                    );
                    self.lost = 0;
                    self.unsynced_since.get_or_insert_with(Instant::now);
                }
                Err(error) => self.log_write_error(&error),
            }
        }
        if self.chunk.is_empty() {
            return;
        }
        match self.file.append(self.chunk.as_bytes()) {
            Ok(()) => {
                self.counters.add("lines", self.chunk_lines);
                self.unsynced_since.get_or_insert_with(Instant::now);
            }
            Err(error) => {
                self.count_lost(self.chunk_lines);
                self.log_write_error(&error);
            }
        }
        self.chunk.clear();
        self.chunk_lines = 0;
    }

    fn count_lost(&mut self, lines: u64) {
        if lines > 0 {
            self.counters.add("lost", lines);
            self.lost += lines;
        }
    }

    fn sync(&mut self) {
        self.unsynced_since = None;
        if let Err(error) = self.file.sync() {
            self.log_write_error(&error);
        }
    }

    fn log_write_error(&mut self, error: &std::io::Error) {
        if self.complained_at.is_none_or(|at| at.elapsed() >= COMPLAINT_INTERVAL) {
            self.complained_at = Some(Instant::now());
            tracing::error!(%error, lines = self.lost, "cannot write the audit log; lines are lost, the broker continues");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::sync::mpsc::sync_channel;

    use tenure_engine::Timestamp;

    use super::super::line::Who;
    use super::*;

    /// A file that can be full.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(String, bool)>>);

    impl Disk {
        fn set_full(&self, full: bool) {
            self.0.lock().unwrap().1 = full;
        }

        fn lines(&self) -> Vec<serde_json::Value> {
            let text = self.0.lock().unwrap().0.clone();
            text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
        }
    }

    impl LogFile for Disk {
        fn append(&mut self, lines: &[u8]) -> io::Result<()> {
            let mut disk = self.0.lock().unwrap();
            if disk.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.push_str(std::str::from_utf8(lines).unwrap());
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn writer(disk: &Disk) -> AuditWriter {
        AuditWriter::new(Box::new(disk.clone()), Arc::default(), Arc::new(Counters::new("audit")))
    }

    fn act(name: &'static str) -> Box<AuditLine> {
        let who = Who { door: "test", identity: Some("anna".into()), ..Who::default() };
        Box::new(AuditLine::new(Timestamp(1), Some(who), name, AuditOutcome::Done))
    }

    fn wrong_key(address: [u8; 4]) -> Box<AuditLine> {
        let who = Who { door: "test", address: Some(address.into()), ..Who::default() };
        let outcome = AuditOutcome::Refused { code: "wrong-key", why: String::new() };
        Box::new(AuditLine::new(Timestamp(1), Some(who), "connect", outcome))
    }

    #[test]
    fn what_a_full_disk_or_a_full_queue_costs_is_counted_and_told_first() {
        let disk = Disk::default();
        let mut writer = writer(&disk);
        disk.set_full(true);
        for _ in 0..3 {
            writer.take(act("cancel"));
            writer.write();
        }
        assert!(disk.lines().is_empty());
        disk.set_full(false);
        writer.dropped.fetch_add(4, Ordering::Relaxed);
        writer.take(act("retry"));
        writer.write();
        let lines = disk.lines();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["act"], &lines[0]["count"]), (&"lines-lost".into(), &7.into()));
        assert_eq!(lines[1]["act"], "retry");
        assert_eq!((writer.counters.get("lost"), writer.counters.get("lines")), (7, 1));
    }

    #[test]
    fn repeated_refusals_of_one_peer_are_merged_into_two_lines() {
        let disk = Disk::default();
        let mut writer = writer(&disk);
        for _ in 0..1_000 {
            writer.take(wrong_key([10, 0, 0, 1]));
        }
        writer.take(wrong_key([10, 0, 0, 2]));
        writer.close();
        let lines = disk.lines();
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line["from"] == "10.0.0.1").count(), 2);
        assert_eq!(lines[2]["times"], 999);
    }

    #[test]
    fn closing_writes_everything_that_was_sent_before() {
        let disk = Disk::default();
        let (sender, receiver) = sync_channel(16);
        let (done, is_done) = sync_channel(1);
        for _ in 0..5 {
            sender.send(AuditMessage::Line(act("cancel"))).unwrap();
        }
        sender.send(AuditMessage::Close(done)).unwrap();
        drop(sender);
        writer(&disk).run(&receiver);
        is_done.try_recv().expect("it said so");
        assert_eq!(disk.lines().len(), 5);
    }
}
