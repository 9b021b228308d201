//! The named limits of the protocol. Each is checked before memory is allocated, so that a large announced length
//! alone costs nothing.

/// The longest frame, without its length prefix: the largest body, 16 MiB, and room for the fields around it.
pub const FRAME_BYTES_MAX: usize = 17 << 20;

/// Maximum number of entries in any list of a message: tasks of a submission, attempts of a heartbeat, tags of a task.
pub const ENTRIES_MAX: usize = 10_000;

/// Maximum number of bodies in the submission of an array: as many as an array has elements.
pub const ARRAY_ENTRIES_MAX: usize = 1_000_000;

/// Maximum nesting where the shape of a value is not known beforehand. Known messages nest as deep as their types.
pub const DEPTH_MAX: usize = 32;

/// The longest name of a message kind.
pub const KIND_BYTES_MAX: usize = 64;
