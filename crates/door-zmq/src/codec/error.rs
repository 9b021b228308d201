//! Why a connection is closed. Every protocol violation has a name, for counters and logs.

/// A peer violated ZMTP as this door implements it. Each of these ends the connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts say it")]
pub enum CodecError {
    #[error("the first bytes are not a ZMTP signature")]
    Signature,
    #[error("the peer speaks ZMTP {major}, this door speaks 3.0 and later")]
    Version { major: u8 },
    #[error("the security mechanism {name:?} is not accepted here")]
    Mechanism { name: String },
    #[error("a frame has reserved flags set: {flags:#04x}")]
    ReservedFlags { flags: u8 },
    #[error("a command claims that more frames follow")]
    CommandWithMore,
    #[error("a message arrived before the handshake was over")]
    MessageInHandshake,
    #[error("a frame of {length} bytes is longer than the limit of {limit}")]
    FrameTooLong { length: u64, limit: usize },
    #[error("a command of {length} bytes is longer than the limit of {limit}")]
    CommandTooLong { length: u64, limit: usize },
    #[error("a message is longer than the limit of {limit} bytes")]
    MessageTooLong { limit: usize },
    #[error("a message has more than {limit} frames")]
    TooManyFrames { limit: usize },
    #[error("a command does not begin with its name")]
    CommandName,
    #[error("the command {name:?} does not belong here")]
    UnexpectedCommand { name: String },
    #[error("the {command} command is malformed")]
    Malformed { command: &'static str },
    #[error("the socket type {name:?} cannot talk to a ROUTER")]
    SocketType { name: String },
    #[error("an identity of {length} bytes is longer than 255")]
    IdentityTooLong { length: usize },
    #[error("identities that begin with a zero byte are reserved")]
    IdentityReserved,
    #[error("the credentials were refused")]
    CredentialsRefused,
    #[error("the peer reported an error: {reason}")]
    PeerError { reason: String },
}

impl CodecError {
    /// A short constant word for counters and log fields.
    pub fn kind(&self) -> &'static str {
        match self {
            CodecError::Signature => "signature",
            CodecError::Version { .. } => "version",
            CodecError::Mechanism { .. } => "mechanism",
            CodecError::ReservedFlags { .. } => "reserved_flags",
            CodecError::CommandWithMore => "command_with_more",
            CodecError::MessageInHandshake => "message_in_handshake",
            CodecError::FrameTooLong { .. } => "frame_too_long",
            CodecError::CommandTooLong { .. } => "command_too_long",
            CodecError::MessageTooLong { .. } => "message_too_long",
            CodecError::TooManyFrames { .. } => "too_many_frames",
            CodecError::CommandName => "command_name",
            CodecError::UnexpectedCommand { .. } => "unexpected_command",
            CodecError::Malformed { .. } => "malformed",
            CodecError::SocketType { .. } => "socket_type",
            CodecError::IdentityTooLong { .. } => "identity_too_long",
            CodecError::IdentityReserved => "identity_reserved",
            CodecError::CredentialsRefused => "credentials_refused",
            CodecError::PeerError { .. } => "peer_error",
        }
    }
}
