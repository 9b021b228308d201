//! Gives the binary its version: `0.2.0 (1f2e3d4c5b 2026-11-17)`, with the commit and its date.
//!
//! The commit comes from `commit.txt`, which `git archive` fills, or else from git. A tree with neither (a copy of the
//! files) builds as well, with the number alone. The date is that of the commit, unless SOURCE_DATE_EPOCH says another,
//! so that the same sources give the same binary.
//!
//! A debug build names no commit: each commit would build the binary and its tests once more.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const SECONDS_A_DAY: i64 = 86_400;
/// Digits of the commit's name. Enough to be unique for a long time, short enough to read out.
const COMMIT_DIGITS: usize = 10;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=commit.txt");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let number = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release { from_archive().or_else(from_git) } else { None };
    let version = match commit {
        Some(Commit { name, seconds }) => {
            let seconds =
                env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok()).unwrap_or(seconds);
            format!("{number} ({name} {})", date(seconds))
        }
        None if is_release => number,
        None => format!("{number} (debug build)"),
    };
    println!("cargo:rustc-env=TENURE_VERSION={version}");
}

struct Commit {
    name: String,
    /// Since 1970.
    seconds: i64,
}

impl Commit {
    /// From the full name of the commit and its time.
    fn parse(text: &str) -> Option<Commit> {
        let (name, seconds) = text.trim().split_once(' ')?;
        let is_name = name.len() >= COMMIT_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then_some(Commit { name: name[..COMMIT_DIGITS].to_owned(), seconds: seconds.parse().ok()? })
    }
}

/// In a working tree the file holds the placeholders that `git archive` replaces.
fn from_archive() -> Option<Commit> {
    Commit::parse(&fs::read_to_string("commit.txt").ok()?)
}

fn from_git() -> Option<Commit> {
    // Changes with every commit, checkout and rebase; only a file that exists may be watched, or cargo runs this
    // script in every build.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    // A source tree inside another project's repository is not that project's commit.
    git(&["ls-files", "--error-unmatch", "commit.txt"])?;
    Commit::parse(&git(&["log", "-1", "--format=%H %ct"])?)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// `2026-11-17`, in UTC. Counts years from March, so that the leap day is a year's last.
fn date(seconds: i64) -> String {
    let days = seconds.div_euclid(SECONDS_A_DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
