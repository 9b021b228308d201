//! Lines from a file or from a program that is still writing. A thread reads them, so that each line is published as
//! soon as it is complete.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::super::input::BYTES_MAX;
use crate::exit::Failure;

/// Lines that are read ahead of the broker's answers.
const AHEAD_MAX: usize = 1_000;

/// A line that is not empty, with its number, or why there are no more.
type Line = (u64, Result<String, std::io::Error>);

pub(super) struct Incoming(Receiver<Line>);

impl Incoming {
    pub(super) fn open(file: &Path) -> Result<Incoming, Failure> {
        let (lines, incoming) = channel(AHEAD_MAX);
        if file.as_os_str() == "-" {
            std::thread::spawn(move || read(std::io::stdin().lock(), &lines));
        } else {
            let open = std::fs::File::open(file)
                .map_err(|error| Failure::input(format!("{} cannot be read: {error}", file.display())))?;
            std::thread::spawn(move || read(BufReader::new(open), &lines));
        }
        Ok(Incoming(incoming))
    }

    /// The lines that are ready, at least one; nothing at the end.
    pub(super) async fn next(&mut self, max: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        self.0.recv_many(&mut lines, max).await;
        lines
    }
}

fn read(mut from: impl BufRead, lines: &Sender<Line>) {
    for number in 1.. {
        let mut line = String::new();
        let line = match from.by_ref().take(2 * BYTES_MAX).read_line(&mut line) {
            Ok(0) => return,
            Ok(_) if line.trim().is_empty() => continue,
            Ok(_) => Ok(line),
            Err(error) => Err(error),
        };
        let is_last = line.is_err();
        // Sending fails only if the program is about to end.
        if lines.blocking_send((number, line)).is_err() || is_last {
            return;
        }
    }
}
