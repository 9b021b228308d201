//! The door's side of a worker that fetches its tasks itself, through whichever connections it speaks. Pure logic that all
//! such protocols share.

mod evidence;

pub use evidence::{Evidence, MENTION_WITHIN, UNREAD_FOR};
