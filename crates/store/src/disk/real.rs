//! A directory of the file system.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Disk, DiskFile, DiskLock};
use crate::error::{IoContext, StoreError};
use crate::files::LOCK;

/// Only the broker's own user may read bodies and results.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A directory of the file system, locked by a file in it.
#[derive(Debug)]
pub struct RealDisk {
    dir: PathBuf,
    handle: File,
    access: Access,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

impl RealDisk {
    /// Creates the directory if it does not exist, synced, with access for its owner only.
    pub fn new(dir: impl AsRef<Path>) -> io::Result<RealDisk> {
        let dir = dir.as_ref().to_owned();
        if !dir.is_dir() {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&dir)?;
            if let Some(parent) = dir.canonicalize()?.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let handle = File::open(&dir)?;
        Ok(RealDisk { dir, handle, access: Access::ReadWrite })
    }

    /// Opens an existing directory for reading. It changes nothing, so the file system may be read-only.
    pub fn read_only(dir: impl AsRef<Path>) -> io::Result<RealDisk> {
        let dir = dir.as_ref().to_owned();
        let handle = File::open(&dir)?;
        Ok(RealDisk { dir, handle, access: Access::ReadOnly })
    }

    /// The permissions of the directory, if other users of the machine have access to it.
    pub fn open_to_others(&self) -> io::Result<Option<u32>> {
        let mode = self.handle.metadata()?.mode() & 0o7777;
        Ok((mode & 0o077 != 0).then_some(mode))
    }

    fn may_write(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// Creates an empty file that only its owner can read, whatever the umask or the mode of an older file
    /// is.
    fn create_private(&self, name: &str, truncate: bool) -> io::Result<File> {
        self.may_write()?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(truncate).mode(FILE_MODE);
        let file = options.open(self.dir.join(name))?;
        if file.metadata()?.mode() & 0o777 != FILE_MODE {
            // Some file systems have no permissions and refuse this.
            let _ = file.set_permissions(Permissions::from_mode(FILE_MODE));
        }
        Ok(file)
    }

    fn lock_file(&self) -> io::Result<Option<File>> {
        match self.access {
            Access::ReadWrite => self.create_private(LOCK, false).map(Some),
            Access::ReadOnly => match File::open(self.dir.join(LOCK)) {
                Ok(file) => Ok(Some(file)),
                // Every process that uses a directory creates this file first.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// The process that holds the lock, according to the file. Its number counts only while such a process
    /// exists.
    fn holder(&self) -> String {
        let pid = fs::read_to_string(self.dir.join(LOCK)).unwrap_or_default();
        let pid = pid.trim();
        let is_there = !Path::new("/proc/self").exists() || Path::new("/proc").join(pid).exists();
        if pid.is_empty() || !is_there { "(unknown)".to_owned() } else { pid.to_owned() }
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.create_private(name, true)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let write = self.access == Access::ReadWrite;
        Ok(Arc::new(OpenOptions::new().read(true).write(write).open(self.dir.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.may_write()?;
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.may_write()?;
        fs::remove_file(self.dir.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::fstatvfs(&self.handle)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self) -> Result<DiskLock, StoreError> {
        let Some(file) = self.lock_file().doing("opening", LOCK)? else { return Ok(DiskLock::new(())) };
        let locked = match self.access {
            Access::ReadWrite => file.try_lock(),
            Access::ReadOnly => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Locked { pid: self.holder() }),
            Err(TryLockError::Error(source)) => return Err(source).doing("locking", LOCK),
        }
        if self.access == Access::ReadWrite {
            // The process number only serves the error message of a second process; the lock itself is what
            // counts. A full disk must not keep the broker from starting.
            let _ = file.set_len(0);
            let _ = file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0);
        }
        Ok(DiskLock::new(file))
    }
}

impl DiskFile for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match FileExt::read_at(self, &mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}
