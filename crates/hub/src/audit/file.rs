//! The files of the log. The current one has the configured name; older ones have a number appended, and the
//! oldest is deleted when there are too many.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Only the broker's user may read the audit log.
const MODE: u32 = 0o600;

/// The destination of the lines.
pub trait LogFile: Send {
    /// Appends whole lines atomically: all of them or none.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Makes appended lines durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file of the audit log, and its older files.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    bytes_max: u64,
    files_max: usize,
}

impl AuditFile {
    /// Opens the file at its end, or creates it.
    pub fn open(path: &Path, bytes_max: u64, files_max: usize) -> io::Result<AuditFile> {
        let mut file = open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // A killed broker may have left a partial line.
            let mut last = [0];
            file.seek(SeekFrom::Start(bytes - 1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes += 1;
            }
        }
        Ok(AuditFile { path: path.to_owned(), file, bytes, bytes_max, files_max: files_max.max(1) })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        for number in (1..self.files_max.saturating_sub(1)).rev() {
            rename(&numbered(&self.path, number), &numbered(&self.path, number + 1))?;
        }
        if self.files_max > 1 {
            rename(&self.path, &numbered(&self.path, 1))?;
        } else {
            std::fs::remove_file(&self.path)?;
        }
        self.file = open(&self.path)?;
        self.bytes = 0;
        // The rename is durable only after the directory is synced.
        File::open(directory(&self.path))?.sync_all()
    }
}

impl LogFile for AuditFile {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        if self.bytes > 0 && self.bytes + length > self.bytes_max {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        match written {
            Ok(()) => self.bytes += length,
            // A partial line would make the next one unreadable.
            Err(_) => self.file.set_len(self.bytes)?,
        }
        written
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Opens or creates the file, readable only by the broker's user.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(MODE).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process writes to it"))
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn text(path: &Path) -> String {
        std::fs::read_to_string(path).expect("it is there")
    }

    #[test]
    fn files_rotate_by_size_and_their_number_is_limited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let mut file = AuditFile::open(&path, 20, 3).unwrap();
        for number in 0..9 {
            file.append(format!("line {number}\n").as_bytes()).unwrap();
        }
        file.sync().unwrap();
        assert_eq!(text(&path), "line 8\n");
        assert_eq!(text(&numbered(&path, 1)), "line 6\nline 7\n");
        assert_eq!(text(&numbered(&path, 2)), "line 4\nline 5\n");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 3);
        for entry in std::fs::read_dir(&directory).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, MODE);
        }
    }

    #[test]
    fn a_log_goes_on_after_a_restart_even_behind_half_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        std::fs::write(&path, "whole\nhal").unwrap();
        let mut file = AuditFile::open(&path, 1 << 20, 3).unwrap();
        file.append(b"next\n").unwrap();
        assert_eq!(text(&path), "whole\nhal\nnext\n");
        let taken = AuditFile::open(&path, 1 << 20, 3).expect_err("one process at a time");
        assert_eq!(taken.kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn a_device_or_directory_is_no_log() {
        assert!(AuditFile::open(Path::new("/dev/null"), 1, 1).is_err());
        assert!(AuditFile::open(Path::new("/tmp"), 1, 1).is_err());
    }
}
