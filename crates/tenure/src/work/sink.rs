//! Files that get all of a command's output: `--stdout` and `--stderr`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The values of the names in a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) attempt: u32,
    /// The place of the task in its array.
    pub(crate) index: u64,
}

impl Names {
    /// Puts the values in the place of `%{id}`, `%{name}`, `%{attempt}` and `%{index}`. A task without a name is named
    /// by its id.
    pub(crate) fn fill(&self, text: &str) -> String {
        let name = if self.name.is_empty() { &self.id } else { &self.name };
        text.replace("%{id}", &self.id)
            .replace("%{name}", name)
            .replace("%{attempt}", &self.attempt.to_string())
            .replace("%{index}", &self.index.to_string())
    }
}

/// The files of one attempt. Both streams may have the same one.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    pub(crate) stdout: Option<Sink>,
    pub(crate) stderr: Option<Sink>,
}

/// One file, and what went wrong with it.
#[derive(Debug)]
pub(crate) struct Sink {
    path: PathBuf,
    file: File,
    failed: Option<io::Error>,
}

impl Sinks {
    /// Opens the files. The first attempt empties them; later ones add to them, so that what a crashed attempt
    /// wrote stays.
    pub(crate) fn open(
        stdout: Option<&str>,
        stderr: Option<&str>,
        names: &Names,
        dir: &Path,
    ) -> Result<Sinks, String> {
        let path = |text: &str| dir.join(names.fill(text));
        let (out, err) = (stdout.map(path), stderr.map(path));
        let mut sinks = Sinks::default();
        if let Some(path) = &out {
            sinks.stdout = Some(Sink::open(path, names.attempt > 1)?);
        }
        if let Some(path) = &err {
            // Do not empty the file that stdout has just opened.
            sinks.stderr = Some(Sink::open(path, names.attempt > 1 || out.as_ref() == Some(path))?);
        }
        Ok(sinks)
    }

    /// A sentence on what could not be written.
    pub(crate) fn trouble(&self) -> Option<String> {
        [&self.stdout, &self.stderr].into_iter().flatten().find_map(|sink| {
            let error = sink.failed.as_ref()?;
            Some(format!("its output could not be written to {}: {error}", sink.path.display()))
        })
    }
}

impl Sink {
    fn open(path: &Path, keep: bool) -> Result<Sink, String> {
        let wrong = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(wrong)?;
        }
        if !keep {
            File::create(path).map_err(wrong)?;
        }
        // Appending, because both streams may write to it.
        let file = File::options().create(true).append(true).open(path).map_err(wrong)?;
        Ok(Sink { path: path.to_owned(), file, failed: None })
    }

    /// Writes, up to the first error: a file with a hole would be worse than a short one.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(bytes).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(attempt: u32) -> Names {
        Names { id: "0190".into(), name: "sim/7".into(), attempt, index: 3 }
    }

    #[test]
    fn a_path_says_whose_output_it_is() {
        assert_eq!(names(2).fill("%{name}-%{id}.%{attempt}.%{index}"), "sim/7-0190.2.3");
        let unnamed = Names { name: String::new(), ..names(1) };
        assert_eq!(unnamed.fill("%{name}.out"), "0190.out");
    }

    #[test]
    fn later_attempts_add_to_the_file_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sim/7.out");
        let write = |attempt, text: &[u8]| {
            let mut sinks =
                Sinks::open(Some("%{name}.out"), Some("%{name}.out"), &names(attempt), dir.path()).unwrap();
            sinks.stdout.as_mut().unwrap().write(text);
            sinks.stderr.as_mut().unwrap().write(b"!");
            assert_eq!(sinks.trouble(), None);
        };
        write(1, b"old");
        write(1, b"one");
        write(2, b"two");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one!two!");
        assert!(Sinks::open(Some("/dev/null/x"), None, &names(1), dir.path()).is_err());
    }
}
