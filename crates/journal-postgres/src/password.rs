//! Where a password comes from if the URL has none: a file in the form of psql, or the variable of psql.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::address::{JournalAddress, ServerAddress, ServerHost};

/// The password for one server. `None`: the server may need none.
pub(crate) fn password_for(
    address: &JournalAddress,
    server: &ServerAddress,
) -> Result<Option<Zeroizing<String>>, String> {
    if let Some(password) = &address.password {
        return Ok(Some(password.clone()));
    }
    let (file, is_named) = match (&address.passfile, std::env::var_os("PGPASSFILE")) {
        (Some(file), _) => (file.clone(), true),
        (None, Some(file)) => (PathBuf::from(file), true),
        (None, None) => match std::env::var_os("HOME") {
            Some(home) => (PathBuf::from(home).join(".pgpass"), false),
            None => return Ok(from_environment()),
        },
    };
    if !file.exists() && !is_named {
        return Ok(from_environment());
    }
    let text = read(&file)?;
    let host = match &server.host {
        ServerHost::Tcp(name) => name.as_str(),
        ServerHost::Unix(_) => "localhost",
    };
    let wanted = [host, &server.port.to_string(), &address.database, &address.user];
    Ok(find(&text, wanted).or_else(from_environment))
}

fn from_environment() -> Option<Zeroizing<String>> {
    std::env::var("PGPASSWORD").ok().map(Zeroizing::new)
}

fn read(file: &Path) -> Result<Zeroizing<String>, String> {
    let shown = file.display();
    let mode = std::fs::metadata(file).map_err(|error| format!("the password file {shown}: {error}"))?;
    if mode.permissions().mode() & 0o077 != 0 {
        return Err(format!("other users may read the password file {shown}: chmod 600 {shown}"));
    }
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("the password file {shown}: {error}"))?;
    Ok(Zeroizing::new(text))
}

/// The first line that fits, as psql does it.
fn find(text: &str, wanted: [&str; 4]) -> Option<Zeroizing<String>> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [host, port, database, user, password] = <[String; 5]>::try_from(fields).ok()?;
        let fits =
            [host, port, database, user].iter().zip(wanted).all(|(has, wants)| has == "*" || has == wants);
        fits.then(|| Zeroizing::new(password))
    })
}

/// Fields with a colon between them; a backslash takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == ':' && fields.len() < 5 {
            fields.push(String::new());
            continue;
        }
        let last = fields.last_mut().expect("there is one");
        match character {
            '\\' => last.extend(characters.next()),
            other => last.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# hosts\ndb2:*:*:*:two\ndb1:5432:work:tenure:a\\:b\\\\c\n*:*:*:*:rest:with:colons\n";
        let find = |host| find(text, [host, "5432", "work", "tenure"]).map(|found| found.to_string());
        assert_eq!(find("db1").as_deref(), Some("a:b\\c"));
        assert_eq!(find("db2").as_deref(), Some("two"));
        assert_eq!(find("db3").as_deref(), Some("rest:with:colons"));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pass");
        std::fs::write(&file, "*:*:*:*:secret\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = read(&file).unwrap_err();
        assert!(error.contains("chmod 600") && !error.contains("secret"), "{error}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read(&file).is_ok());
    }
}
