//! The key for a broker: from the environment, a file, stdin or a prompt. Never from the command line, which every
//! user of the machine can read.

use std::fmt;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::Path;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use crate::args::Global;
use crate::exit::Failure;

/// The value of `--key` that asks for a prompt.
const ASK: &str = "ask";
/// The variables that hold a key, or name a file that does. No command of a task gets them.
pub(crate) const VARIABLES: [&str; 2] = ["TENURE_KEY", "TENURE_KEY_FILE"];
/// A key is not longer.
const KEY_BYTES_MAX: u64 = 4 << 10;

/// A key. It is wiped from memory when it is dropped, and cannot be printed.
#[derive(Clone)]
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a key)")
    }
}

/// The key, if there is one: what is asked for on the command line wins over the environment.
pub(crate) fn find(global: &Global) -> Result<Option<Secret>, Failure> {
    if let Some(given) = &global.key_given {
        if given != ASK {
            return Err(Failure::usage(
                "--key takes no key: every user of this machine could read it in the list of processes. Put it into the \
                 environment (TENURE_KEY), into a file (--key-file FILE, or - for stdin), or type it (--key ask)",
            ));
        }
        return ask().map(Some);
    }
    if let Some(file) = &global.key_file {
        return from_file(file).map(Some);
    }
    if let Some(key) = std::env::var_os(VARIABLES[0]).filter(|key| !key.is_empty()) {
        let key = key.into_string().map_err(|_| Failure::usage("TENURE_KEY: is not readable text"))?;
        return Ok(Some(Secret(Zeroizing::new(key))));
    }
    match std::env::var_os(VARIABLES[1]).filter(|file| !file.is_empty()) {
        Some(file) => from_file(Path::new(&file)).map(Some),
        None => Ok(None),
    }
}

/// The first line of a file; `-` is stdin.
fn from_file(file: &Path) -> Result<Secret, Failure> {
    let cannot =
        |error: io::Error| Failure::usage(format!("--key-file: {} cannot be read: {error}", file.display()));
    let mut line = Zeroizing::new(String::new());
    if file == Path::new("-") {
        // Byte by byte: what follows the line is for the verb.
        read_line(&mut io::stdin().lock(), &mut line).map_err(cannot)?;
    } else {
        let open = std::fs::File::open(file).map_err(cannot)?;
        BufReader::new(open.take(KEY_BYTES_MAX)).read_line(&mut line).map_err(cannot)?;
    }
    let key = Zeroizing::new(line.trim().to_owned());
    if key.is_empty() {
        return Err(Failure::usage(format!(
            "--key-file: the first line of {} is empty: it should hold the key",
            file.display()
        )));
    }
    Ok(Secret(key))
}

fn read_line(from: &mut impl BufRead, line: &mut String) -> io::Result<()> {
    from.take(KEY_BYTES_MAX).read_line(line).map(drop)
}

/// Asks at the terminal, without showing what is typed.
fn ask() -> Result<Secret, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(
            "--key ask: there is no terminal to ask at; use TENURE_KEY, or --key-file FILE",
        ));
    }
    let mut err = io::stderr().lock();
    write!(err, "Key: ").and_then(|()| err.flush())?;
    let mut line = Zeroizing::new(String::new());
    let silent = EchoOff::begin();
    let read = read_line(&mut stdin.lock(), &mut line);
    drop(silent);
    writeln!(err)?;
    read?;
    let key = Zeroizing::new(line.trim().to_owned());
    if key.is_empty() {
        return Err(Failure::usage("--key ask: no key was typed"));
    }
    Ok(Secret(key))
}

/// While this exists, the terminal does not echo input.
struct EchoOff(Option<Termios>);

impl EchoOff {
    fn begin() -> EchoOff {
        let Ok(before) = tcgetattr(io::stdin()) else { return EchoOff(None) };
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &silent);
        EchoOff(Some(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_the_key_in_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "  00ff\nmore\n").unwrap();
        assert_eq!(from_file(&file).unwrap().reveal(), "00ff");
        assert!(!format!("{:?}", from_file(&file).unwrap()).contains("00ff"));
        std::fs::write(&file, "\n00ff\n").unwrap();
        assert!(from_file(&file).unwrap_err().message.contains("is empty"));
        assert!(from_file(&dir.path().join("none")).unwrap_err().message.contains("cannot be read"));
    }
}
