//! Which group a data directory belongs to. A member copies the group's journal over what is in its directory, so a
//! directory with another journal must never be used.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tenure_journal_postgres::GroupIdentity;

use crate::exit::Failure;

/// The file that names the group: its name and its id.
const FILE: &str = "group";

/// Refuses a directory whose journal is in no group.
pub(crate) fn refuse_own_journal(dir: &Path) -> Result<(), Failure> {
    if read(dir)?.is_some() {
        return Ok(());
    }
    let has_journal = fs::read_dir(dir)?.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("journal-") || name.starts_with("snapshot-")
    });
    if !has_journal {
        return Ok(());
    }
    let shown = dir.display();
    Err(Failure::system(format!(
        "{shown} holds the journal of a broker without a group: a member would replace it. Choose an empty directory with \
         --data-dir, or bring its tasks into a new group with `tenure journal move --data-dir {shown} --to URL`"
    )))
}

/// Whether the directory is a copy of a group's journal.
pub(crate) fn is_copy(dir: &Path) -> Result<bool, Failure> {
    Ok(read(dir)?.is_some())
}

/// Refuses a directory that is a copy of a group's journal, for a broker without a group.
pub(crate) fn refuse_copy(dir: &Path) -> Result<(), Failure> {
    let Some(group) = read(dir)? else { return Ok(()) };
    let shown = dir.display();
    Err(Failure::system(format!(
        "{shown} is a copy of the journal of the group {}: start with --journal, or choose another directory with \
         --data-dir",
        group.name
    )))
}

/// Writes which group the directory belongs to, and refuses one that belongs to another.
pub(crate) fn claim(dir: &Path, group: &GroupIdentity) -> Result<(), Failure> {
    match read(dir)? {
        Some(known) if known == *group => Ok(()),
        Some(known) => Err(Failure::system(format!(
            "{} is a copy of the group {} (id {}), and the database has the group {} (id {}): check --journal and --group, \
             or choose an empty directory with --data-dir",
            dir.display(),
            known.name,
            known.id,
            group.name,
            group.id
        ))),
        None => write(dir, group),
    }
}

pub(crate) fn write(dir: &Path, group: &GroupIdentity) -> Result<(), Failure> {
    let beside = dir.join("group.tmp");
    fs::write(&beside, format!("{}\n{}\n", group.name, group.id))?;
    fs::File::open(&beside)?.sync_all()?;
    fs::rename(&beside, dir.join(FILE))?;
    Ok(())
}

fn read(dir: &Path) -> Result<Option<GroupIdentity>, Failure> {
    let text = match fs::read_to_string(dir.join(FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let mut lines = text.lines().map(str::to_owned);
    match (lines.next(), lines.next()) {
        (Some(name), Some(id)) => Ok(Some(GroupIdentity { name, id })),
        _ => Err(Failure::system(format!(
            "{} is damaged: remove the directory, everything in it is fetched from the database again",
            dir.join(FILE).display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_belongs_to_one_group() {
        let dir = tempfile::tempdir().unwrap();
        let group = GroupIdentity { name: "g1".to_owned(), id: "1".to_owned() };
        assert!(refuse_own_journal(dir.path()).is_ok() && refuse_copy(dir.path()).is_ok());
        claim(dir.path(), &group).unwrap();
        claim(dir.path(), &group).unwrap();
        let other = GroupIdentity { id: "2".to_owned(), ..group };
        let said = claim(dir.path(), &other).unwrap_err().to_string();
        assert!(said.contains("group g1 (id 1)") && said.contains("(id 2)"), "{said}");
        assert!(refuse_copy(dir.path()).unwrap_err().to_string().contains("group g1"));
        fs::write(dir.path().join("journal-0000000000000000"), "").unwrap();
        assert!(refuse_own_journal(dir.path()).is_ok(), "a copy has journal files");
    }

    #[test]
    fn a_journal_of_its_own_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("journal-0000000000000000"), "").unwrap();
        let said = refuse_own_journal(dir.path()).unwrap_err().to_string();
        assert!(said.contains("tenure journal move"), "{said}");
    }
}
