//! Conversations with the hub: a question with its answer, and those that go on for longer. Each holds a session of
//! the hub and drops it when its call ends, is cancelled or breaks, which is how the hub learns of it.

mod call;
mod listening;
mod publishing;
mod submitting;
mod waiting;
mod watching;
mod working;

pub(crate) use call::Call;
pub(crate) use listening::Listening;
pub(crate) use publishing::Publishing;
pub(crate) use submitting::{Submitting, submit};
pub(crate) use waiting::wait;
pub(crate) use watching::Watching;
pub(crate) use working::Working;
