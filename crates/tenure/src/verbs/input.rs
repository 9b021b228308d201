//! Reads a subcommand's input from a file or stdin, up to the broker's limit.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;

use crate::exit::Failure;

/// The largest body or payload that is read: the broker takes no larger one.
pub(crate) const BYTES_MAX: u64 = 16 << 20;

pub(crate) fn read_file(file: &Path) -> Result<Bytes, Failure> {
    let name = file.display().to_string();
    let open = std::fs::File::open(file)
        .map_err(|error| Failure::input(format!("{name} cannot be read: {error}")))?;
    read_all(open, &name)
}

pub(crate) fn read_stdin() -> Result<Bytes, Failure> {
    read_all(std::io::stdin().lock(), "stdin")
}

fn read_all(from: impl Read, name: &str) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    let read = from.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::input(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Failure::input(format!(
            "{name} is too long: at most 16 MB. Store it where workers can read it, and send its address"
        )));
    }
    Ok(bytes.into())
}
