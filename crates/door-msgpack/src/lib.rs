//! The MessagePack door: the native protocol, and beside it the older message dialect in [`xmessage`].

pub mod xmessage;
