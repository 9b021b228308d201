//! The members of a group of brokers, as a welcome names them, and the way straight to the leader.

use std::time::Duration;

use tenure_wire::Name;
use tenure_wire::hello::Welcome;
use tokio::time::timeout;

use crate::address::{ADDRESSES_MAX, Address, TlsAddress};
use crate::connection::Connection;
use crate::peer::PeerOptions;

/// How long the leader may take. A connection through another member works as well.
const LEADER_WITHIN: Duration = Duration::from_secs(2);

impl PeerOptions {
    /// Remembers the members of the broker's group, after the addresses that the program has given. Returns the place of
    /// the leader's address.
    fn learn(&mut self, through: &Address, welcome: &Welcome) -> Option<usize> {
        if welcome.members.is_empty() && welcome.leader.is_none() {
            return None;
        }
        self.replace_learned(through, welcome.leader.iter().chain(&welcome.members));
        let leader = reached_like(through, welcome.leader.as_deref()?)?;
        self.addresses.iter().position(|address| *address == leader)
    }

    fn replace_learned<'a>(&mut self, through: &Address, learned: impl Iterator<Item = &'a Name>) {
        self.addresses.truncate(self.addresses.len() - self.learned);
        let given = self.addresses.len();
        for text in learned {
            if let Some(address) = reached_like(through, text)
                && !self.addresses.contains(&address)
                && self.addresses.len() < ADDRESSES_MAX
            {
                self.addresses.push(address);
            }
        }
        self.learned = self.addresses.len() - given;
    }
}

/// The address of another member, reached in the same way as this one: with the same certificates, or without TLS. A
/// Unix socket says nothing about how other machines are reached.
fn reached_like(through: &Address, text: &str) -> Option<Address> {
    let Ok(Address::Tcp(address)) = text.parse() else { return None };
    match through {
        Address::Tcp(_) => Some(Address::Tcp(address)),
        Address::Tls(tls) => Some(Address::Tls(Box::new(TlsAddress { address, ..(**tls).clone() }))),
        Address::Unix(_) => None,
    }
}

/// Remembers the members of the group that serves the namespace of this client. Returns the place of the first one that it
/// can use.
pub(crate) fn go_elsewhere(peer: &mut PeerOptions, through: &Address, addresses: &[Name]) -> Option<usize> {
    peer.replace_learned(through, addresses.iter());
    let first = addresses.iter().find_map(|text| reached_like(through, text))?;
    peer.addresses.iter().position(|address| *address == first)
}

/// Replaces a connection that another member forwards by one to the leader itself, if that can be reached. Returns the
/// place of its address.
pub(crate) async fn go_to_leader(
    peer: &mut PeerOptions,
    connection: Connection,
    through: &Address,
) -> (Connection, usize) {
    let place_of =
        |peer: &PeerOptions| peer.addresses.iter().position(|address| address == through).unwrap_or(0);
    if peer.stays_at_member {
        return (connection, place_of(peer));
    }
    let leader = peer.learn(through, connection.welcome());
    let place = place_of(peer);
    let Some(leader) = leader.filter(|leader| *leader != place) else { return (connection, place) };
    let address = &peer.addresses[leader];
    match timeout(LEADER_WITHIN, Connection::open(address, peer.hello())).await {
        Ok(Ok(straight)) => (straight, leader),
        _ => {
            tracing::debug!(%address, %through, "the leader cannot be reached itself; its member forwards");
            (connection, place)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::placeholder_welcome;

    fn peer(addresses: &str) -> PeerOptions {
        let mut peer = PeerOptions::default();
        peer.add_addresses(addresses);
        peer
    }

    fn welcome(leader: &str, members: &[&str]) -> Welcome {
        let members = members.iter().map(|member| (*member).into()).collect();
        Welcome { leader: Some(leader.into()), members, ..placeholder_welcome() }
    }

    #[test]
    fn members_come_after_the_given_addresses_and_the_newest_list_counts() {
        let mut peer = peer("b1:7171, b9:7171");
        let through = peer.addresses[0].clone();
        assert_eq!(peer.learn(&through, &welcome("b2:7171", &["b1:7171", "b2:7171", "b3:7171"])), Some(2));
        assert_eq!(peer.names(), "b1:7171, b9:7171, b2:7171, b3:7171");
        assert_eq!(peer.learn(&through, &welcome("b1:7171", &["b1:7171", "b4:7171"])), Some(0));
        assert_eq!(peer.names(), "b1:7171, b9:7171, b4:7171");
        assert_eq!(
            peer.learn(&through, &placeholder_welcome()),
            None,
            "a broker without a group says nothing"
        );
        assert_eq!(peer.names(), "b1:7171, b9:7171, b4:7171");
    }

    #[test]
    fn a_member_is_reached_with_the_same_certificates_and_not_through_a_unix_socket() {
        let mut secure = peer("tls://b1:7171?ca=/ca.pem");
        let through = secure.addresses[0].clone();
        assert_eq!(secure.learn(&through, &welcome("b2:7171", &[])), Some(1));
        assert_eq!(secure.addresses[1], "tls://b2:7171?ca=/ca.pem".parse().unwrap());
        let mut local = peer("unix:/run/tenure.sock");
        let through = local.addresses[0].clone();
        assert_eq!(local.learn(&through, &welcome("b2:7171", &["b2:7171"])), None);
        assert_eq!(local.addresses.len(), 1);
    }

    #[test]
    fn the_members_of_another_group_replace_what_was_learned_and_the_first_is_next() {
        let mut peer = peer("b1:7171");
        let through = peer.addresses[0].clone();
        peer.learn(&through, &welcome("b2:7171", &["b1:7171", "b2:7171"]));
        assert_eq!(go_elsewhere(&mut peer, &through, &["c2:7171".into(), "c1:7171".into()]), Some(1));
        assert_eq!(peer.names(), "b1:7171, c2:7171, c1:7171");
        assert_eq!(go_elsewhere(&mut peer, &through, &["b1:7171".into()]), Some(0), "it is back");
        assert_eq!(go_elsewhere(&mut peer, &through, &["unix:/x".into()]), None);
    }

    #[test]
    fn a_list_of_strange_addresses_is_bounded_and_ignored() {
        let mut peer = peer("b1:7171");
        let through = peer.addresses[0].clone();
        let many: Vec<String> = (0..500).map(|number| format!("h{number}:1")).collect();
        let members: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(peer.learn(&through, &welcome("unix:/etc/passwd", &members)), None);
        assert_eq!(peer.addresses.len(), ADDRESSES_MAX);
        assert_eq!(peer.learn(&through, &welcome("no address", &["tls://x?ca=/y", "a b"])), None);
        assert_eq!(peer.addresses.len(), 1);
    }
}
