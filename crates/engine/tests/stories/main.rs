//! The engine's promises, told as stories: somebody submits, somebody works, something goes wrong, and everybody hears
//! exactly what they should. One file per theme.

mod any_order;
mod broker;
mod submitting;
