//! The named limits of a peer's input.

/// The input limits of one connection. They are stricter until the peer has authenticated, because until then it is
/// untrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RespLimits {
    /// Bytes of one whole command, headers included.
    pub message_bytes: usize,
    /// Bytes of one argument.
    pub argument_bytes: usize,
    /// Arguments of one command, its name included.
    pub arguments: usize,
    /// Bytes of a command typed as a line.
    pub inline_bytes: usize,
}

impl RespLimits {
    /// Bytes of one command.
    pub const MESSAGE_BYTES_MAX: usize = 10 * 1024 * 1024;
    /// Arguments of one command.
    pub const ARGUMENTS_MAX: usize = 100_000;
    /// Bytes of a command typed as a line.
    pub const INLINE_BYTES_MAX: usize = 64 * 1024;

    /// Enough for `HELLO 3 AUTH user key SETNAME name`, and little more.
    pub const STRANGER_ARGUMENTS_MAX: usize = 10;
    /// Bytes of one argument before the peer has authenticated.
    pub const STRANGER_ARGUMENT_BYTES_MAX: usize = 16 * 1024;

    /// For a peer that has authenticated, or need not.
    pub const fn trusted() -> Self {
        Self::trusted_with(Self::MESSAGE_BYTES_MAX)
    }

    /// The same with another limit on one message.
    pub const fn trusted_with(message_bytes: usize) -> Self {
        Self {
            message_bytes,
            argument_bytes: message_bytes,
            arguments: Self::ARGUMENTS_MAX,
            inline_bytes: Self::INLINE_BYTES_MAX,
        }
    }

    /// For a peer that must authenticate and has not.
    pub const fn unauthenticated() -> Self {
        Self {
            message_bytes: Self::STRANGER_ARGUMENTS_MAX * (Self::STRANGER_ARGUMENT_BYTES_MAX + 32),
            argument_bytes: Self::STRANGER_ARGUMENT_BYTES_MAX,
            arguments: Self::STRANGER_ARGUMENTS_MAX,
            inline_bytes: Self::STRANGER_ARGUMENT_BYTES_MAX,
        }
    }
}

impl Default for RespLimits {
    fn default() -> Self {
        Self::trusted()
    }
}
