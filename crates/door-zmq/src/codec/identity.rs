//! The name a peer gives itself on one ROUTER.

use std::fmt;

use tenure_hub::words::check_name;

/// The longest identity ZMTP allows.
pub const IDENTITY_BYTES_MAX: usize = 255;

/// The routing name of a peer: chosen by the peer, or assigned by the door. The two never collide, because assigned
/// names begin with a zero byte and a peer may not choose such a name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Box<[u8]>);

impl Identity {
    /// A name assigned by the door. The number must never be reused, not even after a restart: its previous peer may
    /// still have tasks under it.
    pub fn given(number: u128) -> Identity {
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        Identity(bytes.into())
    }

    /// A name chosen by the peer. The caller has checked it.
    pub(crate) fn chosen(bytes: &[u8]) -> Identity {
        Identity(bytes.into())
    }

    /// The bytes, as the peer sent them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether the peer chose this name itself and may return under it.
    pub fn is_chosen(&self) -> bool {
        self.0.first() != Some(&0)
    }
}

/// Whether a name is one that the helpers of the ZeroMQ guide invent for each socket: two times four hexadecimal
/// digits, as in `6A3F-09C6`.
pub(crate) fn is_random(name: &str) -> bool {
    let bytes = name.as_bytes();
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
    bytes.len() == 9 && bytes[4] == b'-' && digits(&bytes[..4]) && digits(&bytes[5..])
}

/// As text: a printable name is itself, anything else is `@` and hexadecimal digits. A name that begins with `@` is
/// written in digits too, so that two identities never share one text.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if printable(text) => f.write_str(text),
            _ => {
                f.write_str("@")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
            }
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

fn printable(text: &str) -> bool {
    !text.starts_with('@') && check_name("identity", text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printable_identity_is_its_own_text_and_any_other_is_hexadecimal() {
        assert_eq!(Identity::chosen(b"plate-7").to_string(), "plate-7");
        assert_eq!(Identity::given(1).to_string(), "@0000000000000000000000000000000001");
        assert_eq!(Identity::chosen(b"@00").to_string(), "@403030");
        assert_eq!(Identity::chosen(b"a\nb").to_string(), "@610A62");
        assert_eq!(Identity::chosen(&[0xff, 0xfe]).to_string(), "@FFFE");
        assert_eq!(Identity::chosen("a\u{202e}".as_bytes()).to_string(), "@61E280AE");
    }

    #[test]
    fn names_given_by_the_door_cannot_be_chosen_by_a_peer() {
        assert!(!Identity::given(u128::MAX).is_chosen());
        assert!(Identity::chosen(b"me").is_chosen());
    }

    #[test]
    fn the_names_that_the_guide_invents_are_recognised() {
        for name in ["6A3F-09C6", "0000-ffff"] {
            assert!(is_random(name), "{name}");
        }
        for name in ["lab", "node-0012", "6A3F-09C", "6A3F-09C67", "6A3G-09C6", "6A3F_09C6", ""] {
            assert!(!is_random(name), "{name}");
        }
    }
}
