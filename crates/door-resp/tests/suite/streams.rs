//! The codec's promises for any input: a split changes nothing, and what is written reads back.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tenure_door_resp::testing::{Decoder, ProtocolError, Reply, RespLimits, Version, encode, read_reply};

type Commands = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Feeds the stream in the given pieces and collects what comes out.
fn decode(pieces: &[&[u8]]) -> Commands {
    let mut decoder = Decoder::new(RespLimits::trusted_with(64 * 1024));
    let mut commands = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next_request() {
                Ok(Some(request)) => commands.push(request.iter().map(<[u8]>::to_vec).collect()),
                Ok(None) => break,
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn array(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = BytesMut::new();
    encode(&Reply::array(words.iter().map(|word| Reply::bulk(word.clone()))), Version::Resp2, &mut out);
    out.to_vec()
}

fn split(stream: &[u8], cuts: &[prop::sample::Index]) -> Vec<Vec<u8>> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    places.push(stream.len());
    places.sort_unstable();
    let mut from = 0;
    let mut pieces = Vec::new();
    for to in places {
        pieces.push(stream[from..to].to_vec());
        from = to;
    }
    pieces
}

fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 1..12)
}

/// Bytes that look like the protocol now and then.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let bits = prop::sample::select(vec![
        "*",
        "$",
        "\r\n",
        "\r",
        "\n",
        "1",
        "2",
        "-1",
        "0",
        "PING",
        "\"",
        "'",
        "\\x41",
        " ",
        "*1\r\n$4\r\nPING\r\n",
        ":",
        "_",
        "%1\r\n",
        "~",
        "99999999999999999999",
        "*3\r\n$3\r\nSET\r\n",
        "$3\r\nabc\r\n",
        "\u{0}",
    ]);
    prop::collection::vec(bits, 0..40).prop_map(|bits| bits.concat().into_bytes())
}

fn reply() -> impl Strategy<Value = Reply> {
    let line = "[ -~]{0,20}";
    let leaf = prop_oneof![
        line.prop_map(Reply::simple),
        line.prop_map(Reply::error),
        any::<i64>().prop_map(Reply::Integer),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Reply::bulk),
        Just(Reply::Null),
        any::<bool>().prop_map(Reply::Boolean),
        prop::num::f64::NORMAL.prop_map(Reply::Double),
        "-?[1-9][0-9]{0,40}".prop_map(Reply::BigNumber),
        "\\PC{0,20}".prop_map(|text| Reply::Verbatim { format: *b"txt", text: text.into() }),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|text| Reply::BulkError(Bytes::from(text))),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Reply::Array),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Reply::Set),
            prop::collection::vec(inner.clone(), 0..6).prop_map(Reply::Push),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    #[test]
    fn commands_read_back_as_they_were_written(commands in prop::collection::vec(words(), 0..8)) {
        let stream: Vec<u8> = commands.iter().flat_map(|words| array(words)).collect();
        prop_assert_eq!(decode(&[&stream]), (commands, None));
    }

    #[test]
    fn any_split_of_the_stream_gives_the_same_commands(
        commands in prop::collection::vec(words(), 0..8),
        noise in noise(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let mut stream: Vec<u8> = commands.iter().flat_map(|words| array(words)).collect();
        stream.extend(noise);
        let pieces = split(&stream, &cuts);
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(decode(&pieces), decode(&[&stream]));
    }

    #[test]
    fn any_bytes_are_commands_or_an_error_and_never_a_panic(stream: Vec<u8>) {
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert_eq!(decode(&bytes), decode(&[&stream]));
        let _ = read_reply(&stream);
    }

    #[test]
    fn a_word_in_quotes_reads_back_as_an_inline_command(words in words()) {
        let mut line = Vec::new();
        for word in &words {
            line.push(b'"');
            for byte in word {
                line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            line.extend_from_slice(b"\" ");
        }
        line.extend_from_slice(b"\r\n");
        prop_assume!(!words[0].eq_ignore_ascii_case(b"post") && !words[0].eq_ignore_ascii_case(b"host:"));
        prop_assert_eq!(decode(&[&line]), (vec![words], None));
    }

    #[test]
    fn every_reply_reads_back_in_resp3(reply in reply()) {
        let mut out = BytesMut::new();
        encode(&reply, Version::Resp3, &mut out);
        prop_assert_eq!(read_reply(&out), Ok(Some((reply, out.len()))));
    }

    #[test]
    fn every_reply_is_one_whole_reply_in_resp2(reply in reply()) {
        let mut out = BytesMut::new();
        encode(&reply, Version::Resp2, &mut out);
        // A bulk error becomes a line, and a line is text.
        if let Ok(read) = read_reply(&out) {
            prop_assert_eq!(read.map(|(_, length)| length), Some(out.len()));
        } else {
            prop_assert!(std::str::from_utf8(&out).is_err());
        }
    }
}
