//! The older message dialect: one tagged MessagePack value per frame. Workers receive tasks; *actioners* add, play,
//! pause and kill them. Its terms stay in this folder; `spec/xmessage.md` specifies it.

#[allow(missing_docs, reason = "spec/xmessage.md describes the messages and their fields")]
pub mod codec;
mod server;
pub mod session;
mod settings;
mod translate;

pub use server::{DEFAULT_PORT, serve};
pub use settings::XmessageSettings;
