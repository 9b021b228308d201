//! The older message dialect: one tagged MessagePack value per frame, spoken by workers that are sent tasks and by
//! *actioners* that add, play, pause and kill them. Its words stay in this folder; `spec/xmessage.md` is its page.

pub mod codec;
mod server;
pub mod session;
mod settings;
mod translate;

pub use server::{DEFAULT_PORT, serve};
pub use settings::XmessageSettings;
