//! A stamp remembers for which pinned list a folder was prepared, so that it is prepared once.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(super) struct Stamp {
    folder: PathBuf,
    content: String,
}

impl Stamp {
    /// The stamp for `folder` when it is prepared from `list` with `tool`. The folder itself is part of it:
    /// what is installed there does not survive being moved.
    pub(super) fn new(folder: &Path, tool: &str, list: &str) -> Self {
        Self { folder: folder.to_owned(), content: format!("{}\n{tool}\n{list}", folder.display()) }
    }

    pub(super) fn matches(&self) -> bool {
        fs::read_to_string(self.file()).is_ok_and(|found| found == self.content)
    }

    /// Empties the folder. Until [`Self::put`] it counts as not prepared, also when the power fails meanwhile.
    pub(super) fn clear(&self) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder)
                .with_context(|| format!("cannot empty {}", self.folder.display()))?;
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot make {}", self.folder.display()))
    }

    pub(super) fn put(&self) -> Result<()> {
        fs::write(self.file(), &self.content)
            .with_context(|| format!("cannot write {}", self.file().display()))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("stamp")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own under the build, gone when the test is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tenure-stamp-{name}-{}", std::process::id()));
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_prepared_once_for_the_same_list_and_tool() {
        let scratch = Scratch::new("once");
        let stamp = Stamp::new(&scratch.0, "Python 3.11", "redis==1");
        assert!(!stamp.matches());
        stamp.clear().unwrap();
        assert!(!stamp.matches(), "a folder that is only emptied is not prepared");
        stamp.put().unwrap();
        assert!(stamp.matches());
    }

    #[test]
    fn another_list_or_another_tool_prepares_it_again() {
        let scratch = Scratch::new("again");
        let stamp = Stamp::new(&scratch.0, "Python 3.11", "redis==1");
        stamp.clear().unwrap();
        stamp.put().unwrap();
        assert!(!Stamp::new(&scratch.0, "Python 3.11", "redis==2").matches());
        assert!(!Stamp::new(&scratch.0, "Python 3.12", "redis==1").matches());
    }

    #[test]
    fn emptying_takes_what_an_older_list_left() {
        let scratch = Scratch::new("left");
        let stamp = Stamp::new(&scratch.0, "tool", "list");
        stamp.clear().unwrap();
        fs::write(scratch.0.join("old"), "old").unwrap();
        stamp.clear().unwrap();
        assert!(!scratch.0.join("old").exists());
    }
}
