//! The door kit: what every door needs, written once. A door keeps only what belongs to its protocol.
