//! The forward header: PROXY protocol v2 with two fields of our own.
//!
//! ```text
//! signature (12)  0x21  family  length (2)  source  destination  fields
//! field 0xE1: the name of the member that forwards
//! field 0xE0: the authentication code of everything before this field; the last field
//! ```
//!
//! A connection without an address (a Unix socket) has the command LOCAL and no addresses.

use std::net::{IpAddr, SocketAddr};

use super::secret::{CODE_BYTES, GroupSecret};

/// The first bytes of a header. No protocol of ours begins like this.
pub(crate) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the command, the family and the length of the rest.
pub(crate) const START_BYTES: usize = 16;
/// The maximum length of what follows the start.
const REST_BYTES_MAX: usize = 512;
const NAME_BYTES_MAX: usize = 255;

const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const FIELD_CODE: u8 = 0xE0;
const FIELD_MEMBER: u8 = 0xE1;
/// The type and the length of a field.
const FIELD_START_BYTES: usize = 3;

/// What a member says about a connection that it forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardHeader {
    /// The client, and the address of the standby's door that it has connected to. `None` for a Unix socket.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// The member that forwards.
    pub member: String,
}

/// Why a connection with a header is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// It is no header of this kind.
    #[error("the forward header is malformed: {0}")]
    Malformed(&'static str),
    /// The peer does not know the group's secret.
    #[error("the forward header has no valid code of this group")]
    WrongCode,
}

impl ForwardHeader {
    /// The address of the client.
    pub fn source(&self) -> Option<IpAddr> {
        self.addresses.map(|(source, _)| source.ip().to_canonical())
    }

    /// The bytes of the header.
    pub fn encode(&self, secret: &GroupSecret) -> Vec<u8> {
        let mut rest = Vec::new();
        let family = put_addresses(&mut rest, self.addresses);
        let name = &self.member.as_bytes()[..self.member.len().min(NAME_BYTES_MAX)];
        put_field(&mut rest, FIELD_MEMBER, name);
        let length = u16::try_from(rest.len() + FIELD_START_BYTES + CODE_BYTES).expect("a header is short");
        let mut header = SIGNATURE.to_vec();
        header.push(if self.addresses.is_some() { PROXY } else { LOCAL });
        header.push(family);
        header.extend_from_slice(&length.to_be_bytes());
        header.extend_from_slice(&rest);
        let code = secret.sign(&header);
        put_field(&mut header, FIELD_CODE, &code);
        header
    }

    /// Reads a whole header.
    pub fn decode(bytes: &[u8], secret: &GroupSecret) -> Result<ForwardHeader, ForwardError> {
        let start = bytes.first_chunk().ok_or(ForwardError::Malformed("it is torn"))?;
        let length = rest_bytes(start)?;
        let rest = &bytes[START_BYTES..];
        if rest.len() != length {
            return Err(ForwardError::Malformed("its length is wrong"));
        }
        let (addresses, mut fields) = take_addresses(start[12], start[13], rest)?;
        let mut member = None;
        loop {
            let before = bytes.len() - fields.len();
            let (kind, value, left) = take_field(fields)?;
            if kind == FIELD_CODE {
                if !left.is_empty() || !secret.is_code_of(&bytes[..before], value) {
                    return Err(ForwardError::WrongCode);
                }
                let name = member.and_then(|name| std::str::from_utf8(name).ok());
                let member = name.ok_or(ForwardError::Malformed("it names no member"))?.to_owned();
                return Ok(ForwardHeader { addresses, member });
            }
            if kind == FIELD_MEMBER {
                member = Some(value);
            }
            fields = left;
        }
    }
}

/// How many bytes follow the start of a header.
pub(crate) fn rest_bytes(start: &[u8; START_BYTES]) -> Result<usize, ForwardError> {
    if !start.starts_with(&SIGNATURE) {
        return Err(ForwardError::Malformed("it has no signature"));
    }
    let length = usize::from(u16::from_be_bytes([start[14], start[15]]));
    if length > REST_BYTES_MAX {
        return Err(ForwardError::Malformed("it is too long"));
    }
    Ok(length)
}

fn put_addresses(to: &mut Vec<u8>, addresses: Option<(SocketAddr, SocketAddr)>) -> u8 {
    let Some((source, destination)) = addresses else { return UNSPECIFIED };
    let family = match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            to.extend_from_slice(&source.octets());
            to.extend_from_slice(&destination.octets());
            TCP4
        }
        (source, destination) => {
            to.extend_from_slice(&as_v6(source));
            to.extend_from_slice(&as_v6(destination));
            TCP6
        }
    };
    to.extend_from_slice(&source.port().to_be_bytes());
    to.extend_from_slice(&destination.port().to_be_bytes());
    family
}

fn as_v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

type Addresses = Option<(SocketAddr, SocketAddr)>;

fn take_addresses(command: u8, family: u8, rest: &[u8]) -> Result<(Addresses, &[u8]), ForwardError> {
    let torn = ForwardError::Malformed("its addresses are torn");
    let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    match (command, family) {
        (LOCAL, UNSPECIFIED) => Ok((None, rest)),
        (PROXY, TCP4) => {
            let ip = |at: usize| Some(IpAddr::from(*rest.get(at..)?.first_chunk::<4>()?));
            let both = || Some(((ip(0)?, port(8)?).into(), (ip(4)?, port(10)?).into()));
            Ok((Some(both().ok_or(torn)?), &rest[12..]))
        }
        (PROXY, TCP6) => {
            let ip = |at: usize| Some(IpAddr::from(*rest.get(at..)?.first_chunk::<16>()?));
            let both = || Some(((ip(0)?, port(32)?).into(), (ip(16)?, port(34)?).into()));
            Ok((Some(both().ok_or(torn)?), &rest[36..]))
        }
        _ => Err(ForwardError::Malformed("its command or family is not supported")),
    }
}

fn put_field(to: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u16::try_from(value.len()).expect("a field is short");
    to.push(kind);
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(value);
}

/// The type and the value of the next field, and what follows it.
fn take_field(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), ForwardError> {
    let [kind, high, low, rest @ ..] = bytes else { return Err(ForwardError::WrongCode) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    let (value, left) = rest.split_at_checked(length).ok_or(ForwardError::Malformed("a field is torn"))?;
    Ok((*kind, value, left))
}

/// For any bytes: no panic, and what is accepted was made with the secret.
///
/// # Panics
/// If a header is accepted that would be written otherwise.
pub fn fuzz(bytes: &[u8]) {
    let secret = GroupSecret::new(b"a secret for fuzzing").expect("it is long enough");
    if let Ok(header) = ForwardHeader::decode(bytes, &secret) {
        let again = ForwardHeader::decode(&header.encode(&secret), &secret);
        assert_eq!(again.as_ref(), Ok(&header), "a header is written as it was read");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> GroupSecret {
        GroupSecret::new(b"the secret of a group").unwrap()
    }

    fn header(source: &str, destination: &str) -> ForwardHeader {
        let addresses = Some((source.parse().unwrap(), destination.parse().unwrap()));
        ForwardHeader { addresses, member: "b2".into() }
    }

    #[test]
    fn a_header_is_a_proxy_header_of_the_second_version() {
        let bytes = header("192.0.2.7:40000", "198.51.100.1:7171").encode(&secret());
        assert_eq!(bytes[..16], *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x34");
        assert_eq!(bytes[16..28], [192, 0, 2, 7, 198, 51, 100, 1, 0x9c, 0x40, 0x1c, 0x03]);
        assert_eq!(bytes[28..33], [0xe1, 0, 2, b'b', b'2']);
        assert_eq!(bytes[33..36], [0xe0, 0, 32]);
        assert_eq!(bytes.len(), 36 + 32);
    }

    #[test]
    fn headers_are_read_as_they_were_written() {
        let unix = ForwardHeader { addresses: None, member: "b2".into() };
        let mixed = header("[2001:db8::1]:1", "127.0.0.1:2");
        for known in [header("192.0.2.7:40000", "192.0.2.8:7171"), header("[::1]:5", "[::2]:6"), unix] {
            assert_eq!(ForwardHeader::decode(&known.encode(&secret()), &secret()), Ok(known));
        }
        let read = ForwardHeader::decode(&mixed.encode(&secret()), &secret()).unwrap();
        assert_eq!(read.source(), mixed.source());
        let mapped = header("[::ffff:192.0.2.7]:1", "[::ffff:192.0.2.8]:2");
        assert_eq!(mapped.source(), Some([192, 0, 2, 7].into()), "one address, however it is written");
    }

    #[test]
    fn no_changed_byte_is_accepted() {
        let good = header("192.0.2.7:40000", "192.0.2.8:7171").encode(&secret());
        for place in 0..good.len() {
            for change in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[place] ^= change;
                assert!(ForwardHeader::decode(&bad, &secret()).is_err(), "byte {place} ^ {change}");
            }
        }
        for length in 0..good.len() {
            assert!(ForwardHeader::decode(&good[..length], &secret()).is_err(), "torn at {length}");
        }
        let longer = [&good[..], b"x"].concat();
        assert!(ForwardHeader::decode(&longer, &secret()).is_err());
    }

    #[test]
    fn a_header_of_a_stranger_is_refused() {
        let other = GroupSecret::new(b"the secret of another group").unwrap();
        let bytes = header("192.0.2.7:40000", "192.0.2.8:7171").encode(&other);
        assert_eq!(ForwardHeader::decode(&bytes, &secret()), Err(ForwardError::WrongCode));
        // What a load balancer sends: no code at all.
        let plain = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x08\x9c\x40\x1c\x03";
        assert_eq!(ForwardHeader::decode(plain, &secret()), Err(ForwardError::WrongCode));
    }

    #[test]
    fn a_field_behind_the_code_is_refused() {
        let mut bytes = header("192.0.2.7:40000", "192.0.2.8:7171").encode(&secret());
        put_field(&mut bytes, FIELD_MEMBER, b"b9");
        let length = u16::try_from(bytes.len() - START_BYTES).unwrap();
        bytes[14..16].copy_from_slice(&length.to_be_bytes());
        assert_eq!(ForwardHeader::decode(&bytes, &secret()), Err(ForwardError::WrongCode));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_read() {
        let mut start = [0; START_BYTES];
        start[..12].copy_from_slice(&SIGNATURE);
        start[14..].copy_from_slice(&513u16.to_be_bytes());
        assert_eq!(rest_bytes(&start), Err(ForwardError::Malformed("it is too long")));
    }
}
