//! Which group serves which namespace, as the doors of a leader see it.

use std::collections::BTreeSet;

use tenure_door_kit::forward::DoorAddresses;
use tenure_hub::monotonic_clock;
use tenure_hub::words::Name;
use tenure_hub::{IdleLogs, MemberDoors, PlacedNamespace, Placement, in_logs};
use tenure_journal_postgres::ClusterPlacement;
use tenure_store::{IdleJournal, Opened, StoreError};

use crate::exit::Failure;

/// The placement, for the hub of a member of this group.
pub(super) fn of_group(group: &str, found: &ClusterPlacement) -> Placement {
    let mut placement = Placement {
        group: group.into(),
        default_group: found.default_group.as_str().into(),
        ..Placement::default()
    };
    for row in &found.namespaces {
        let placed = PlacedNamespace { group: row.group.as_str().into(), first_event: row.first_event };
        placement.namespaces.insert(row.name.as_str().into(), placed);
    }
    for member in found.members.iter().filter(|member| member.group != group) {
        let Ok(doors) = member.doors.parse::<DoorAddresses>() else { continue };
        let doors: MemberDoors =
            doors.iter().map(|(door, address)| (door.to_owned(), address.into())).collect();
        placement.members.entry(member.group.as_str().into()).or_default().push(doors);
    }
    placement
}

/// The namespaces of which this group has something although another group serves them: a program that moved them ended
/// before it was done.
pub(super) fn not_of(
    group: &str,
    found: &ClusterPlacement,
    opened: &Opened,
) -> Result<BTreeSet<Name>, StoreError> {
    let elsewhere = found.namespaces.iter().filter(|row| row.group != group);
    let elsewhere: BTreeSet<&str> = elsewhere.map(|row| row.name.as_str()).collect();
    if elsewhere.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut gone = in_logs(opened, &elsewhere)?;
    gone.extend(opened.namespaces().into_iter().filter(|namespace| elsewhere.contains(&**namespace)));
    Ok(gone)
}

/// Removes them from the journal, which is then closed: the next leadership begins without them.
pub(super) async fn forget(opened: Opened, namespaces: BTreeSet<Name>) {
    let forgetting = move || {
        let mut journal = IdleJournal::new(opened, monotonic_clock);
        if let Err(error) = drop_all(&mut journal, &namespaces) {
            tracing::warn!(%error, "what is left of a namespace of another group cannot be removed; trying again");
            return;
        }
        if let Err(error) = journal.close() {
            tracing::warn!(%error, "the journal was not closed; this member stands by and tries again");
        }
    };
    let _ = tokio::task::spawn_blocking(forgetting).await;
}

fn drop_all(journal: &mut IdleJournal, namespaces: &BTreeSet<Name>) -> Result<(), Failure> {
    let explain = |error: &dyn std::fmt::Display| Failure::system(error.to_string());
    let mut logs = IdleLogs::open(journal).map_err(|error| explain(&error))?;
    for namespace in namespaces {
        journal.drop_namespace(namespace).map_err(|error| explain(&error))?;
        logs.drop_namespace(namespace, &mut || journal.renew()).map_err(|error| explain(&error))?;
        tracing::info!(%namespace, "another group serves this namespace; what was left of it here is removed");
    }
    Ok(())
}
