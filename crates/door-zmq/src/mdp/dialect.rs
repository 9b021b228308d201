//! The three dialects and their command bytes.

/// The Majordomo dialect of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MdpDialect {
    /// MDP/0.1: a leading empty frame, one reply per request.
    V1,
    /// MDP/0.2: no leading empty frame, partial replies, other command numbers.
    V2,
    /// MDP/0.2 with the leading empty frame of MDP/0.1, as some of its implementations write it.
    V2Delimited,
    /// The same with the worker's numbers for the client's commands, and without the service in replies.
    V2Renumbered,
    /// The `_PL` dialect: MDP/0.1 with plugin workers of many threads, batches of calls and crash notices.
    Pl,
}

/// The commands between broker and worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Ready,
    Request,
    Partial,
    Reply,
    Heartbeat,
    Disconnect,
    Processes,
    Finished,
}

impl MdpDialect {
    pub fn client_header(self) -> &'static [u8] {
        match self {
            MdpDialect::V1 => b"MDPC01",
            MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => b"MDPC02",
            MdpDialect::Pl => b"MDPC01_PL",
        }
    }

    pub fn worker_header(self) -> &'static [u8] {
        match self {
            MdpDialect::V1 => b"MDPW01",
            MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => b"MDPW02",
            MdpDialect::Pl => b"MDPW01_PL",
        }
    }

    /// Whether messages begin with an empty frame.
    pub fn is_delimited(self) -> bool {
        self != MdpDialect::V2
    }

    /// Whether replies to a client have a frame for the service.
    pub(super) fn names_service(self) -> bool {
        self != MdpDialect::V2Renumbered
    }

    /// Whether a result may come in parts, and the client's commands have numbers.
    pub fn has_parts(self) -> bool {
        matches!(self, MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered)
    }

    pub(super) fn word(self, byte: u8) -> Option<Word> {
        WORDS.iter().copied().find(|&word| self.byte(word) == Some(byte))
    }

    /// The byte of a command, if the dialect has it.
    pub(super) fn byte(self, word: Word) -> Option<u8> {
        let (v1, v2, pl) = match word {
            Word::Ready => (1, 1, 1),
            Word::Request => (2, 2, 2),
            Word::Partial => (0, 3, 0),
            Word::Reply => (3, 4, 3),
            Word::Heartbeat => (4, 5, 4),
            Word::Disconnect => (5, 6, 5),
            Word::Processes => (0, 0, 6),
            Word::Finished => (0, 0, 7),
        };
        let byte = match self {
            MdpDialect::V1 => v1,
            MdpDialect::V2 | MdpDialect::V2Delimited | MdpDialect::V2Renumbered => v2,
            MdpDialect::Pl => pl,
        };
        (byte != 0).then_some(byte)
    }
}

const WORDS: [Word; 8] = [
    Word::Ready,
    Word::Request,
    Word::Partial,
    Word::Reply,
    Word::Heartbeat,
    Word::Disconnect,
    Word::Processes,
    Word::Finished,
];
