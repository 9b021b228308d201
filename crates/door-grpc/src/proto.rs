//! The generated code of `proto/`: messages, and one trait per service.

#![allow(clippy::all, clippy::too_many_lines, unreachable_pub, unused_qualifications, missing_docs)]

/// All files as a set of descriptors, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

pub mod tenure {
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/tenure.v1.rs"));
    }
}

pub mod nexusd {
    pub mod sidecar {
        include!(concat!(env!("OUT_DIR"), "/nexusd.sidecar.rs"));
    }
}

pub use nexusd::sidecar;
