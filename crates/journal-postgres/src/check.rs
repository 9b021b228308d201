//! What would make the journal unsafe or useless, found before a broker starts.

use std::fmt;

use tenure_store::ReplicationError;
use zeroize::Zeroizing;

use crate::PostgresJournal;
use crate::group::missing;
use crate::link::QUERY_MAX;
use crate::schema::check_format;

/// What a broker should know before it uses the database.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The group that the settings name.
    pub group: GroupIdentity,
    /// What the members of the group share, and no one outside knows.
    pub secret: GroupSecretText,
    /// The server's version, such as `15.6`.
    pub server_version: String,
    /// Commits wait for a standby.
    pub is_synchronous: bool,
}

/// A group, told apart from one of the same name in another database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupIdentity {
    /// The name that users gave it.
    pub name: String,
    /// A random id, made with the group.
    pub id: String,
}

/// Never shown.
#[derive(Clone)]
pub struct GroupSecretText(pub Zeroizing<String>);

impl fmt::Debug for GroupSecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl PostgresJournal {
    /// Refuses what cannot be used, with what to do.
    pub fn check(&self) -> Result<Checked, ReplicationError> {
        let link = self.link()?;
        let settings = link.query(QUERY_MAX, |connected| async move {
            let sql = "select current_setting('fsync'), current_setting('full_page_writes'), \
                       current_setting('server_version'), current_setting('synchronous_standby_names')";
            let row = connected.client.query_one(sql, &[]).await?;
            Ok((0..4).map(|index| row.get::<_, String>(index)).collect::<Vec<_>>())
        })?;
        for (name, value) in ["fsync", "full_page_writes"].iter().zip(&settings) {
            if value == "off" {
                return Err(ReplicationError::Misconfigured(format!(
                    "the database runs with {name} = off, and loses data in a crash: turn it on in postgresql.conf"
                )));
            }
        }
        self.check_sessions()?;
        check_format(&link)?;
        let group = self.group().to_owned();
        let (id, secret): (String, String) = link.query(QUERY_MAX, move |connected| async move {
            let sql = "select id::text, secret from tenure.groups where name = $1";
            let row = connected.client.query_opt(sql, &[&group]).await?;
            let row = row.ok_or_else(|| missing(&group))?;
            Ok((row.get(0), row.get(1)))
        })?;
        Ok(Checked {
            secret: GroupSecretText(Zeroizing::new(secret)),
            group: GroupIdentity { name: self.group().to_owned(), id },
            server_version: settings[2].clone(),
            is_synchronous: !settings[3].trim().is_empty(),
        })
    }

    /// A pooler that gives each transaction another session breaks the settings and locks of sessions.
    fn check_sessions(&self) -> Result<(), ReplicationError> {
        let (one, other) = (self.link()?, self.link()?);
        let set = |link: &crate::link::PostgresLink, value: &'static str| {
            link.query(QUERY_MAX, move |connected| async move {
                Ok(connected.client.batch_execute(&format!("set tenure.probe = '{value}'")).await?)
            })
        };
        set(&one, "one")?;
        set(&other, "other")?;
        let probe: Option<String> = one.query(QUERY_MAX, |connected| async move {
            Ok(connected.client.query_one("select current_setting('tenure.probe', true)", &[]).await?.get(0))
        })?;
        if probe.as_deref() == Some("one") {
            return Ok(());
        }
        Err(ReplicationError::Misconfigured(
            "a connection pooler between the broker and the database mixes sessions: use its session mode, or connect to \
             the database directly"
                .to_owned(),
        ))
    }
}
