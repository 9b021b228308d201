//! The trace context that a submitter gives to its task, in the form of the W3C recommendation, for spans of clients,
//! broker and workers that belong together.

use std::fmt;

use crate::limits::TRACESTATE_BYTES_MAX;
use crate::refusal::Refusal;

/// Whose span a task continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The identity of the trace.
    pub trace_id: [u8; 16],
    /// The span that submitted the task.
    pub parent: [u8; 8],
    /// The flags of W3C trace context; 1: sampled.
    pub flags: u8,
    /// Additions of tracing systems; opaque to the broker.
    pub state: Option<Box<str>>,
}

const SAMPLED: u8 = 1;
const TEXT_BYTES: usize = 55;

impl TraceContext {
    /// Reads the values of `traceparent` and `tracestate`.
    pub fn parse(parent: &str, state: Option<&str>) -> Result<TraceContext, Refusal> {
        let wrong = Refusal::BadValue {
            what: "traceparent",
            why: "is not of the form 00-(32 digits)-(16 digits)-(2 digits), in lower-case hexadecimal, with ids that are not 0",
        };
        let parsed = parse_parent(parent).ok_or(wrong)?;
        let state = state.map(str::trim).filter(|state| !state.is_empty());
        if state.is_some_and(|state| state.len() > TRACESTATE_BYTES_MAX) {
            return Err(Refusal::TooMany { what: "bytes of tracestate", limit: TRACESTATE_BYTES_MAX });
        }
        if state.is_some_and(|state| !state.bytes().all(|byte| (b' '..=b'~').contains(&byte))) {
            return Err(Refusal::BadValue { what: "tracestate", why: "is not printable ASCII" });
        }
        Ok(TraceContext { state: state.map(Into::into), ..parsed })
    }

    /// Whether the submitter records its span.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// The value of `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("-")?;
        self.parent.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "-{:02x}", self.flags)
    }
}

fn parse_parent(text: &str) -> Option<TraceContext> {
    let bytes = text.trim().as_bytes();
    let version = digits::<1>(bytes.get(0..2)?)?;
    // A later version may append fields; what this version knows keeps its place.
    let has_length = if version == [0] { bytes.len() == TEXT_BYTES } else { bytes.len() >= TEXT_BYTES };
    let is_cut = bytes.get(TEXT_BYTES).is_none_or(|byte| *byte == b'-');
    let has_dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
    if version == [0xff] || !has_length || !is_cut || !has_dashes {
        return None;
    }
    let trace_id = digits::<16>(bytes.get(3..35)?)?;
    let parent = digits::<8>(bytes.get(36..52)?)?;
    let [flags] = digits::<1>(bytes.get(53..55)?)?;
    if trace_id == [0; 16] || parent == [0; 8] {
        return None;
    }
    Some(TraceContext { trace_id, parent, flags, state: None })
}

fn digits<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (text.len() == 2 * BYTES).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_context_is_read_and_written_as_it_was() {
        let trace = TraceContext::parse(PARENT, Some(" vendor=1,other=x ")).expect("it is valid");
        assert_eq!((trace.to_string().as_str(), trace.is_sampled()), (PARENT, true));
        assert_eq!(trace.state.as_deref(), Some("vendor=1,other=x"));
        let unsampled = PARENT.replace("-01", "-00");
        assert!(!TraceContext::parse(&unsampled, None).expect("it is valid").is_sampled());
        let later = format!("{}-more", PARENT.replacen("00", "01", 1));
        assert_eq!(TraceContext::parse(&later, Some("")).expect("a later version").to_string(), PARENT);
    }

    #[test]
    fn what_is_no_trace_context_is_refused() {
        let wrong = [
            String::new(),
            PARENT[..54].to_owned(),
            format!("{PARENT}0"),
            format!("{PARENT}-more"),
            PARENT.to_uppercase(),
            PARENT.replacen("00", "ff", 1),
            PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            PARENT.replace("00f067aa0ba902b7", &"0".repeat(16)),
            PARENT.replace('-', "_"),
            "é".repeat(28),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(&text, None).map_err(|no| no.code()), Err("bad-value"), "{text}");
        }
        let long = "a".repeat(TRACESTATE_BYTES_MAX + 1);
        assert_eq!(TraceContext::parse(PARENT, Some(&long)).map_err(|no| no.code()), Err("too-many"));
        assert_eq!(TraceContext::parse(PARENT, Some("a=\u{7}")).map_err(|no| no.code()), Err("bad-value"));
    }
}
