//! Entry point for fuzzers: for any bytes and any split, nothing may panic or grow past its limit.

use bytes::BytesMut;

use crate::codec::{Decoder, RawCommand, Reply, RespLimits, Version, encode, read_reply};
use crate::command::Command;

/// The first byte chooses the size of the pieces in which the rest arrives.
///
/// # Panics
/// If the codec breaks an invariant, which is what a fuzzer looks for.
pub fn fuzz(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let whole = decode(stream, usize::MAX);
    let pieces = decode(stream, usize::from(piece).max(1));
    assert_eq!(whole, pieces, "the same bytes are the same commands, however they arrive");
    let _ = read_reply(stream);
}

/// Every answer the stream would get, in words.
fn decode(stream: &[u8], piece: usize) -> Vec<String> {
    let limits = RespLimits { message_bytes: 4096, argument_bytes: 2048, arguments: 64, inline_bytes: 256 };
    let mut decoder = Decoder::new(limits);
    let mut answers = Vec::new();
    for part in stream.chunks(piece.min(stream.len()).max(1)) {
        decoder.feed(part);
        loop {
            match decoder.next_request() {
                Ok(Some(request)) => answers.push(answer(&request)),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.pending_bytes(), 0, "a broken stream is not kept");
                    answers.push(written(&error.reply()));
                    return answers;
                }
            }
        }
        assert!(decoder.pending_bytes() <= limits.message_bytes + part.len(), "the buffer is bounded");
    }
    answers
}

fn answer(request: &RawCommand<'_>) -> String {
    assert!(request.iter().count() == request.argument_count() + 1);
    assert_eq!(again(request), Some(request.iter().map(<[u8]>::to_vec).collect()), "a command reads back");
    match Command::parse(request) {
        Ok(command) => format!("{command:?}"),
        Err(error) => written(&error.reply()),
    }
}

/// The request written as an array and read once more.
fn again(request: &RawCommand<'_>) -> Option<Vec<Vec<u8>>> {
    let words = request.iter().map(|word| Reply::bulk(word.to_vec()));
    let mut bytes = BytesMut::new();
    encode(&Reply::array(words), Version::Resp2, &mut bytes);
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(&bytes);
    let request = decoder.next_request().ok()??;
    Some(request.iter().map(<[u8]>::to_vec).collect())
}

/// An error must be one line and readable as a reply.
fn written(reply: &Reply) -> String {
    let mut bytes = BytesMut::new();
    encode(reply, Version::Resp2, &mut bytes);
    let (_, length) = read_reply(&bytes).expect("our own reply").expect("a whole reply");
    assert_eq!(length, bytes.len(), "one reply and no more");
    String::from_utf8_lossy(&bytes).into_owned()
}
