//! Encodes replies.

use bytes::{BufMut, Bytes, BytesMut};

use super::reply::Reply;

/// The protocol version that the peer chose with HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The version that every client speaks.
    #[default]
    Resp2,
    /// The version with maps, pushes and numbers.
    Resp3,
}

impl Version {
    /// The number that HELLO shows.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends one reply.
pub fn encode(reply: &Reply, version: Version, out: &mut BytesMut) {
    match version {
        Version::Resp2 => encode2(reply, out),
        Version::Resp3 => encode3(reply, out),
    }
}

fn encode2(reply: &Reply, out: &mut BytesMut) {
    match reply {
        Reply::Null => out.put_slice(b"$-1\r\n"),
        Reply::NullArray => out.put_slice(b"*-1\r\n"),
        Reply::Map(pairs) => {
            header(b'*', pairs.len() * 2, out);
            for (key, value) in pairs {
                encode2(key, out);
                encode2(value, out);
            }
        }
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            header(b'*', items.len(), out);
            for item in items {
                encode2(item, out);
            }
        }
        Reply::Written { count, parts } => written(*count, parts, out),
        Reply::Boolean(yes) => integer(b':', i64::from(*yes), out),
        Reply::Double(value) => bulk(b'$', double(*value).as_bytes(), out),
        Reply::BigNumber(digits) => bulk(b'$', digits.as_bytes(), out),
        Reply::Verbatim { text, .. } => bulk(b'$', text, out),
        Reply::BulkError(text) => line(b'-', text, out),
        Reply::Simple(text) => line(b'+', text.as_bytes(), out),
        Reply::Error(text) => line(b'-', text.as_bytes(), out),
        Reply::Integer(value) => integer(b':', *value, out),
        Reply::Bulk(bytes) => bulk(b'$', bytes, out),
    }
}

fn encode3(reply: &Reply, out: &mut BytesMut) {
    match reply {
        Reply::Null | Reply::NullArray => out.put_slice(b"_\r\n"),
        Reply::Map(pairs) => {
            header(b'%', pairs.len(), out);
            for (key, value) in pairs {
                encode3(key, out);
                encode3(value, out);
            }
        }
        Reply::Array(items) => sequence3(b'*', items, out),
        Reply::Written { count, parts } => written(*count, parts, out),
        Reply::Set(items) => sequence3(b'~', items, out),
        Reply::Push(items) => sequence3(b'>', items, out),
        Reply::Boolean(yes) => out.put_slice(if *yes { b"#t\r\n" } else { b"#f\r\n" }),
        Reply::Double(value) => line(b',', double(*value).as_bytes(), out),
        Reply::BigNumber(digits) => line(b'(', digits.as_bytes(), out),
        Reply::Verbatim { format, text } => {
            header(b'=', text.len() + 4, out);
            out.put_slice(format);
            out.put_u8(b':');
            out.put_slice(text);
            out.put_slice(b"\r\n");
        }
        Reply::BulkError(text) => bulk(b'!', text, out),
        Reply::Simple(text) => line(b'+', text.as_bytes(), out),
        Reply::Error(text) => line(b'-', text.as_bytes(), out),
        Reply::Integer(value) => integer(b':', *value, out),
        Reply::Bulk(bytes) => bulk(b'$', bytes, out),
    }
}

/// Bulk strings one after the other, for [`Reply::Written`].
pub(crate) fn bulks(items: impl Iterator<Item = String>) -> Bytes {
    let mut out = BytesMut::new();
    items.for_each(|item| bulk(b'$', item.as_bytes(), &mut out));
    out.freeze()
}

fn written(count: usize, parts: &[Bytes], out: &mut BytesMut) {
    out.reserve(parts.iter().map(Bytes::len).sum::<usize>() + 16);
    header(b'*', count, out);
    parts.iter().for_each(|part| out.put_slice(part));
}

fn sequence3(kind: u8, items: &[Reply], out: &mut BytesMut) {
    header(kind, items.len(), out);
    for item in items {
        encode3(item, out);
    }
}

fn bulk(kind: u8, bytes: &[u8], out: &mut BytesMut) {
    out.reserve(bytes.len() + 16);
    header(kind, bytes.len(), out);
    out.put_slice(bytes);
    out.put_slice(b"\r\n");
}

fn header(kind: u8, count: usize, out: &mut BytesMut) {
    integer(kind, i64::try_from(count).unwrap_or(i64::MAX), out);
}

fn integer(kind: u8, value: i64, out: &mut BytesMut) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(left % 10).expect("a digit");
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.put_u8(kind);
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
    out.put_slice(b"\r\n");
}

/// A line ends at its first line end, so text from outside must not contain one.
fn line(kind: u8, text: &[u8], out: &mut BytesMut) {
    out.reserve(text.len() + 3);
    out.put_u8(kind);
    if text.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    } else {
        out.put_slice(text);
    }
    out.put_slice(b"\r\n");
}

fn double(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() }
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn written(reply: &Reply, version: Version) -> String {
        let mut out = BytesMut::new();
        encode(reply, version, &mut out);
        String::from_utf8_lossy(&out).replace("\r\n", "|")
    }

    #[test]
    fn every_shape_has_its_form_in_both_versions() {
        let one = || Reply::Integer(1);
        let table = [
            (Reply::OK, "+OK|", "+OK|"),
            (Reply::error("ERR no"), "-ERR no|", "-ERR no|"),
            (Reply::Integer(-7), ":-7|", ":-7|"),
            (Reply::Integer(i64::MIN), ":-9223372036854775808|", ":-9223372036854775808|"),
            (Reply::word("hi"), "$2|hi|", "$2|hi|"),
            (Reply::bulk(Bytes::new()), "$0||", "$0||"),
            (Reply::Null, "$-1|", "_|"),
            (Reply::NullArray, "*-1|", "_|"),
            (Reply::Array(vec![one(), Reply::Null]), "*2|:1|$-1|", "*2|:1|_|"),
            (Reply::Array(Vec::new()), "*0|", "*0|"),
            (Reply::Map(vec![(Reply::word("a"), one())]), "*2|$1|a|:1|", "%1|$1|a|:1|"),
            (Reply::Set(vec![one()]), "*1|:1|", "~1|:1|"),
            (Reply::Push(vec![one()]), "*1|:1|", ">1|:1|"),
            (Reply::Boolean(true), ":1|", "#t|"),
            (Reply::Boolean(false), ":0|", "#f|"),
            (Reply::Double(1.5), "$3|1.5|", ",1.5|"),
            (Reply::Double(f64::NEG_INFINITY), "$4|-inf|", ",-inf|"),
            (Reply::BigNumber("123".into()), "$3|123|", "(123|"),
            (Reply::Verbatim { format: *b"txt", text: "hi".into() }, "$2|hi|", "=6|txt:hi|"),
            (Reply::BulkError("ERR a\r\nb".into()), "-ERR a  b|", "!8|ERR a|b|"),
        ];
        for (reply, old, new) in table {
            assert_eq!(written(&reply, Version::Resp2), old);
            assert_eq!(written(&reply, Version::Resp3), new);
        }
    }

    #[test]
    fn a_name_with_line_ends_cannot_forge_a_second_reply() {
        let reply = Reply::error("ERR unknown command 'x\r\n+OK\r\n'");
        assert_eq!(written(&reply, Version::Resp2), "-ERR unknown command 'x  +OK  '|");
    }
}
