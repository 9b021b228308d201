//! Checks everything that would prevent a broker with this configuration from starting. `serve` refuses to start
//! before it opens anything, and `config check` reports the problems. The check changes nothing and opens no port, so
//! only the start detects that a port is taken.

use std::fs::File;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use tenure_hub::ListenError;

use super::doors;
use crate::config::{Config, Doors};
use crate::exit::Failure;

/// How long the broker before this one may take to be gone: one that was killed lets go of its directory when the
/// system has tidied up after it.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The file of a data directory that a broker locks.
const LOCK: &str = "lock";
/// The longest path of a socket that the system takes.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The problems, the most important first.
pub(crate) fn faults(config: &Config) -> Vec<Failure> {
    let Doors { native, native_unix, xmessage, resp, mdp, pingpong, grpc, http } = &config.doors;
    let (clients, workers) = pingpong.clone().unzip();
    let addresses = [
        ("native", native),
        ("xmessage", xmessage),
        ("resp", resp),
        ("mdp", mdp),
        ("pingpong", &clients),
        ("pingpong", &workers),
        ("grpc", grpc),
        ("http", http),
    ];
    let open: Vec<(&'static str, &str)> =
        addresses.into_iter().filter_map(|(door, address)| Some((door, address.as_deref()?))).collect();
    let mut faults = Vec::new();
    if let Some((key, origin)) = &config.groupless {
        faults.push(Failure::usage(format!(
            "{key} is set ({origin}), and journal is not: this broker would have a journal of its own and be in no group. \
             Name the group's database with --journal, or remove the settings of a group"
        )));
    }
    if open.is_empty() && native_unix.is_none() {
        faults
            .push(Failure::usage("all doors are off: turn on at least one, such as --native 127.0.0.1:7171"));
    }
    let has_keys = config.access.count() > 0;
    let mut known: Vec<(&str, SocketAddr)> = Vec::new();
    for (door, address) in open {
        match resolve(door, address, has_keys) {
            Ok(address) => {
                if let Some((other, _)) =
                    known.iter().find(|(_, known)| *known == address && address.port() != 0)
                {
                    faults.push(Failure::usage(format!(
                        "{door}: {address} is the address of {other} already: choose another with --{door}"
                    )));
                }
                known.push((door, address));
            }
            Err(failure) => faults.push(failure),
        }
    }
    faults.extend(native_unix.as_deref().and_then(|path| socket(path).err()));
    faults.extend(config.audit.as_ref().and_then(|audit| audit_log(&audit.path).err()));
    // The TLS files of each door that has some.
    faults.extend(doors::tls(config).err());
    faults
}

/// Finds problems of the data directory. Waits for a broker that was just killed.
pub(crate) fn directory(config: &Config) -> Result<(), Failure> {
    let dir = &config.data_dir;
    let shown = dir.display();
    let wrong = |why: &str| {
        Failure::system(format!(
            "the data directory {shown} cannot be used: {why}. Choose another with --data-dir"
        ))
    };
    if dir.exists() {
        if !dir.is_dir() {
            return Err(wrong("it is not a directory"));
        }
        if access(dir, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK).is_err() {
            return Err(wrong("this user may not read and write it"));
        }
        return locked(dir);
    }
    // It will be made, so it must be possible to make it.
    let above = dir
        .ancestors()
        .skip(1)
        .map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
    match above.into_iter().find(|above| above.exists()) {
        Some(above) if !above.is_dir() => Err(wrong(&format!("{} is not a directory", above.display()))),
        Some(above) if access(above, Access::WRITE_OK).is_err() => {
            Err(wrong(&format!("this user has no permission to create it in {}", above.display())))
        }
        _ => Ok(()),
    }
}

/// Whether the audit log can be written. A directory that is not there is not made: a mistyped path would hide the log.
fn audit_log(path: &Path) -> Result<(), Failure> {
    let wrong = |why: &str| {
        Failure::system(format!(
            "audit_log: {} cannot be written: {why}. Choose another with --audit-log",
            path.display()
        ))
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !above.is_dir() {
        return Err(wrong(&format!("{} is not a directory", above.display())));
    }
    // Files are rotated there.
    if access(above, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        return Err(wrong(&format!("this user has no permission to write to {}", above.display())));
    }
    if path.exists() {
        if !path.is_file() {
            return Err(wrong("it is not a regular file"));
        }
        if access(path, Access::READ_OK | Access::WRITE_OK).is_err() {
            return Err(wrong("this user may not read and write it"));
        }
    }
    Ok(())
}

fn locked(dir: &Path) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        let Ok(file) = File::open(dir.join(LOCK)) else { return Ok(()) };
        if file.try_lock_shared().is_ok() {
            return Ok(());
        }
        if since.elapsed() >= LOCK_TIMEOUT {
            let pid = std::fs::read_to_string(dir.join(LOCK)).unwrap_or_default();
            return Err(in_use(dir, if pid.trim().is_empty() { "(unknown)" } else { pid.trim() }));
        }
        drop(file);
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn in_use(dir: &Path, pid: &str) -> Failure {
    let dir = dir.display();
    Failure::system(format!(
        "the data directory {dir} is in use by process {pid}: stop that broker (kill {pid}), or choose another directory \
         with --data-dir"
    ))
}

fn resolve(door: &'static str, address: &str, has_keys: bool) -> Result<SocketAddr, Failure> {
    let resolved = address.to_socket_addrs().map_err(|error| {
        Failure::usage(format!("{door}: {address} cannot be resolved: {error}. Choose another with --{door}"))
    })?;
    let bad = || ListenError::BadAddress { door, address: address.to_owned() };
    let address = resolved.into_iter().next().ok_or_else(|| Failure::usage(bad().to_string()))?;
    if !has_keys && !address.ip().is_loopback() {
        return Err(Failure::usage(ListenError::NeedsKeys { door, address }.to_string()));
    }
    // A UDP socket on any port, which no peer can use: checks whether the address belongs to this machine.
    if UdpSocket::bind((address.ip(), 0))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::AddrNotAvailable)
    {
        return Err(Failure::system(format!(
            "{door}: {} is not an address of this machine: choose another with --{door}",
            address.ip()
        )));
    }
    Ok(address)
}

fn socket(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let wrong = |why: String| {
        Failure::system(format!("native_unix: {shown} {why}: choose another path with --native-unix"))
    };
    if path.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
        return Err(wrong(format!("is too long for a socket (at most {SOCKET_PATH_BYTES_MAX} bytes)")));
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !above.is_dir() {
        return Err(wrong("is in a directory that does not exist".to_owned()));
    }
    if access(above, Access::WRITE_OK).is_err() {
        return Err(wrong("is in a directory that this user may not write".to_owned()));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => Err(wrong("exists and is not a socket".to_owned())),
        Ok(_) if UnixStream::connect(path).is_ok() => Err(wrong("is in use".to_owned())),
        _ => Ok(()),
    }
}
