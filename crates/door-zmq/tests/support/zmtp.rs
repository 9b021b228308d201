//! ZMTP, byte by byte, so that the codec is not tested against itself.

/// A greeting as libzmq sends it: the padding is not zero.
pub(crate) fn greeting(major: u8, minor: u8, mechanism: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, major, minor];
    bytes.extend_from_slice(mechanism.as_bytes());
    bytes.resize(64, 0);
    bytes
}

pub(crate) fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if body.len() < 256 {
        bytes.extend_from_slice(&[flags, body.len() as u8]);
    } else {
        bytes.push(flags | 2);
        bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(4, &body)
}

pub(crate) fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
    bytes.extend_from_slice(value);
    bytes
}

pub(crate) fn metadata(socket: &str, identity: &[u8]) -> Vec<u8> {
    [property("Socket-Type", socket.as_bytes()), property("Identity", identity)].concat()
}

pub(crate) fn message<B: AsRef<[u8]>>(parts: &[B]) -> Vec<u8> {
    let last = parts.len() - 1;
    parts.iter().enumerate().flat_map(|(i, part)| frame(u8::from(i < last), part.as_ref())).collect()
}

/// Everything a NULL peer sends until messages may flow.
pub(crate) fn null_opening(socket: &str, identity: &[u8]) -> Vec<u8> {
    [greeting(3, 1, "NULL"), command("READY", &metadata(socket, identity))].concat()
}
