//! The named maxima of the protocol. Each is checked before memory is given, so that a peer that only announces much
//! costs nothing.

/// The longest frame, its length word not counted: the largest body, 16 MiB, and room for all that goes around it.
pub const FRAME_BYTES_MAX: usize = 17 << 20;

/// The most entries in any one list of a message: tasks of a submission, attempts of a heartbeat, tags of a task.
pub const ENTRIES_MAX: usize = 10_000;

/// How deep values may nest where their shape is not known beforehand. Known messages nest as deep as their types do.
pub const DEPTH_MAX: usize = 32;

/// The longest name of a message kind.
pub const KIND_BYTES_MAX: usize = 64;
