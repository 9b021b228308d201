//! Backup and restore: a copy of a running store as of one position, with a manifest that lists its files.
//!
//! The manifest is text:
//!
//! ```text
//! tenure backup 1
//! position 184467
//! file journal-00000000000000000000 65536 9a3f00c1
//! file snapshot-00000000000000032768 8111 00c0ffee
//! end 5d1c22aa
//! ```
//!
//! Each file has its length and CRC32C; the last line holds the CRC32C of everything before it. The manifest is
//! written last, so a backup without one is incomplete.

use std::fmt::Write;
use std::sync::Arc;

use crc32c::{crc32c, crc32c_append};

use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, IoContext, StoreError};
use crate::files::{self, MANIFEST, Named};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::topic_log::{LogFamily, TopicFile};

/// The contents of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The backup holds everything that was acknowledged before this position.
    pub position: u64,
    /// Every file of the backup.
    pub files: Vec<ManifestFile>,
}

/// One file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its name in the directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The CRC-32C of its bytes.
    pub crc: u32,
}

impl Reader {
    /// Copies the store into an empty directory while the broker keeps running. No file is deleted meanwhile.
    pub fn backup(&self, target: &dyn Disk) -> Result<Manifest, StoreError> {
        refuse_occupied(target, "the directory for the backup")?;
        let pin = Pin::new(&self.shared);
        let position = self.shared.progress.acknowledged();
        let mut manifest = Manifest { position, files: Vec::new() };
        for source in pin.files(position)? {
            manifest.files.push(source.copy(target, &source.name)?);
        }
        for family in [LogFamily::Topics, LogFamily::Keys] {
            for source in pin.log(family) {
                manifest.files.push(source.copy(target, &source.name)?);
            }
        }
        for file in self.shared.task_log.files() {
            let source = Source { name: file.name.clone(), file: file.file, bytes: file.end };
            manifest.files.push(source.copy(target, &file.name)?);
        }
        manifest.files.extend(self.copy_hook_files(target)?);
        write_manifest(target, &manifest)?;
        Ok(manifest)
    }

    /// A hook's file is replaced while the broker runs. What was opened stays as it was.
    fn copy_hook_files(&self, target: &dyn Disk) -> Result<Vec<ManifestFile>, StoreError> {
        let disk = &self.shared.disk;
        let mut copied = Vec::new();
        for name in disk.list().doing("listing", "the directory")? {
            if files::named(&name) != Named::Hook {
                continue;
            }
            let file = disk.open(&name).doing("opening", &name)?;
            let bytes = file.len().doing("measuring", &name)?;
            copied.push(Source { name: name.clone(), file, bytes }.copy(target, &name)?);
        }
        Ok(copied)
    }
}

/// Copies a backup into an empty directory and checks every file against the manifest.
pub fn restore(backup: &dyn Disk, target: &dyn Disk) -> Result<Manifest, StoreError> {
    let manifest = check_backup(backup)?;
    let _lock = target.lock()?;
    refuse_occupied(target, "the directory to restore into")?;
    for file in &manifest.files {
        let from = backup.open(&file.name).doing("opening", &file.name)?;
        let source = Source { name: file.name.clone(), file: from, bytes: file.bytes };
        let copied = source.copy(target, &files::unfinished(&file.name))?;
        if copied != *file {
            return Err(Damage::new(&file.name, 0, "it is not what the manifest says").into());
        }
    }
    // Rename last: an interrupted restore must leave nothing that looks like a store.
    for file in &manifest.files {
        target.rename(&files::unfinished(&file.name), &file.name).doing("renaming", &file.name)?;
    }
    target.sync_dir().syncing("the directory")?;
    Ok(manifest)
}

/// Reads the manifest of a backup and checks that all its files exist and are unchanged.
pub fn check_backup(backup: &dyn Disk) -> Result<Manifest, StoreError> {
    let names = backup.list().doing("listing", "the backup")?;
    let missing = |name: &str| StoreError::NoBackup { missing: name.to_owned() };
    if !names.iter().any(|name| name == MANIFEST) {
        return Err(missing(MANIFEST));
    }
    let manifest = read_manifest(backup)?;
    for file in &manifest.files {
        if !names.contains(&file.name) {
            return Err(missing(&file.name));
        }
        let found = backup.open(&file.name).doing("opening", &file.name)?;
        let bytes = found.len().doing("measuring", &file.name)?;
        let source = Source { name: file.name.clone(), file: found, bytes };
        if bytes != file.bytes || source.checksum()? != file.crc {
            return Err(Damage::new(&file.name, 0, "it is not what the manifest says").into());
        }
    }
    Ok(manifest)
}

/// While it lives, no file is deleted or reused.
struct Pin<'a> {
    shared: &'a Shared,
}

impl<'a> Pin<'a> {
    fn new(shared: &'a Shared) -> Pin<'a> {
        shared.files.write().expect("no holder of the lock panics").pins += 1;
        Pin { shared }
    }

    /// The files of the store as of `position`, each with its length at that position.
    fn files(&self, position: u64) -> Result<Vec<Source>, StoreError> {
        let files = self.shared.files.read().expect("no holder of the lock panics");
        let mut found = Vec::new();
        let segments: Vec<_> = files.segments.range(..position).map(|(_, segment)| segment).collect();
        for (index, segment) in segments.iter().enumerate() {
            let next = segments.get(index + 1).map_or(position, |next| next.start);
            let end = segment.file_end()?.min(next);
            let (name, file) = (segment.name.clone(), segment.file.clone());
            found.push(Source { name, file, bytes: segment.offset(end) });
        }
        if let Some(snapshot) = files.snapshot {
            let name = files::snapshot(snapshot.start);
            let file = self.shared.disk.open(&name).doing("opening", &name)?;
            found.push(Source { name, file, bytes: snapshot.bytes });
        }
        for events in &files.events {
            let (name, file) = (events.name.clone(), events.file.clone());
            found.push(Source { name, file, bytes: events.bytes });
        }
        Ok(found)
    }
}

impl Pin<'_> {
    /// The files of a log, each up to its synced length.
    fn log(&self, family: LogFamily) -> Vec<Source> {
        let files = family.files(self.shared).lock().expect("no holder of the lock panics");
        let source = |file: &TopicFile| Source {
            name: file.segment.name.clone(),
            file: file.segment.file.clone(),
            bytes: file.segment.offset(file.end),
        };
        files.iter().map(source).collect()
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.shared.files.write().expect("no holder of the lock panics").pins -= 1;
    }
}

const PIECE_BYTES: usize = 1 << 20;

/// A file, or the part of it that belongs to a backup.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) bytes: u64,
}

impl Source {
    pub(crate) fn copy(&self, target: &dyn Disk, target_name: &str) -> Result<ManifestFile, StoreError> {
        let to = target.create(target_name).doing("creating", target_name)?;
        let mut crc = 0;
        self.in_pieces(|offset, piece| {
            crc = crc32c_append(crc, piece);
            to.write_at(piece, offset).doing("writing", target_name)
        })?;
        to.sync().syncing(target_name)?;
        Ok(ManifestFile { name: self.name.clone(), bytes: self.bytes, crc })
    }

    fn checksum(&self) -> Result<u32, StoreError> {
        let mut crc = 0;
        self.in_pieces(|_, piece| {
            crc = crc32c_append(crc, piece);
            Ok(())
        })?;
        Ok(crc)
    }

    fn in_pieces(&self, mut see: impl FnMut(u64, &[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut piece = vec![0; PIECE_BYTES.min(self.bytes as usize)];
        let mut offset = 0;
        while offset < self.bytes {
            let count = piece.len().min((self.bytes - offset) as usize);
            let read = self.file.read_at(&mut piece[..count], offset).doing("reading", &self.name)?;
            if read < count {
                return Err(
                    Damage::new(&self.name, offset + read as u64, "it is shorter than it should be").into()
                );
            }
            see(offset, &piece[..count])?;
            offset += count as u64;
        }
        Ok(())
    }
}

pub(crate) fn write_manifest(target: &dyn Disk, manifest: &Manifest) -> Result<(), StoreError> {
    let mut text = format!("{FIRST_LINE}\nposition {}\n", manifest.position);
    for ManifestFile { name, bytes, crc } in &manifest.files {
        let _ = writeln!(text, "file {name} {bytes} {crc:08x}");
    }
    let _ = writeln!(text, "end {:08x}", crc32c(text.as_bytes()));
    let unfinished = files::unfinished(MANIFEST);
    let file = target.create(&unfinished).doing("creating", &unfinished)?;
    file.write_at(text.as_bytes(), 0).doing("writing", &unfinished)?;
    file.sync().syncing(&unfinished)?;
    target.rename(&unfinished, MANIFEST).doing("renaming", &unfinished)?;
    target.sync_dir().syncing("the directory of the backup")
}

const FIRST_LINE: &str = "tenure backup 1";
const MANIFEST_BYTES_MAX: u64 = 64 << 20;

fn read_manifest(backup: &dyn Disk) -> Result<Manifest, StoreError> {
    let file = backup.open(MANIFEST).doing("opening", MANIFEST)?;
    let bytes = file.len().doing("measuring", MANIFEST)?.min(MANIFEST_BYTES_MAX);
    let mut text = vec![0; bytes as usize];
    file.read_at(&mut text, 0).doing("reading", MANIFEST)?;
    parse_manifest(&text).ok_or_else(|| Damage::new(MANIFEST, 0, "it is not a complete manifest").into())
}

fn parse_manifest(bytes: &[u8]) -> Option<Manifest> {
    let text = std::str::from_utf8(bytes).ok()?;
    let end = text.rfind("end ")?;
    let crc = u32::from_str_radix(text[end..].strip_prefix("end ")?.strip_suffix('\n')?, 16).ok()?;
    let mut lines = text[..end].lines();
    if crc != crc32c(&bytes[..end]) || lines.next()? != FIRST_LINE {
        return None;
    }
    let position = lines.next()?.strip_prefix("position ")?.parse().ok()?;
    let mut manifest = Manifest { position, files: Vec::new() };
    for line in lines {
        let mut words = line.strip_prefix("file ")?.split(' ');
        let (name, bytes, crc) = (words.next()?, words.next()?, words.next()?);
        // A manifest may come from anywhere: write only files with the names of a store.
        if matches!(files::named(name), Named::Other | Named::Unfinished | Named::Spare(_)) {
            return None;
        }
        let crc = u32::from_str_radix(crc, 16).ok()?;
        manifest.files.push(ManifestFile { name: name.to_owned(), bytes: bytes.parse().ok()?, crc });
    }
    Some(manifest)
}

pub(crate) fn refuse_occupied(disk: &dyn Disk, what: &'static str) -> Result<(), StoreError> {
    let names = disk.list().doing("listing", what)?;
    if names.iter().any(|name| name != files::LOCK) { Err(StoreError::NotEmpty { what }) } else { Ok(()) }
}
