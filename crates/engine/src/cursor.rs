//! Where a list continues: what a page gives to the next one.

use crate::id::TaskId;
use crate::refusal::Refusal;
use crate::state::StateName;

/// Where a list continues. Opaque to callers: it only prints and parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The listed state, if the list is about a single one.
    pub(crate) state: Option<StateName>,
    pub(crate) after: ListPlace,
}

/// A position in the walk over the tasks of one state, over those of several, or over the children of one
/// task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub(crate) part: u32,
    pub(crate) weight: i64,
    pub(crate) number: u64,
}

/// How a cursor that is not about a single state prints its state.
const ANY_STATE: &str = "any";

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ListPlace { part, weight, number } = self.after;
        write!(f, "{}:{part}:{weight}:{number}", self.state.map_or(ANY_STATE, StateName::as_str))
    }
}

impl std::str::FromStr for Cursor {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Cursor, Refusal> {
        let parse = || {
            let mut parts = text.split(':');
            let state = match parts.next()? {
                ANY_STATE => None,
                state => Some(StateName::parse(state)?),
            };
            let part = parts.next()?.parse().ok()?;
            let weight = parts.next()?.parse().ok()?;
            let number = parts.next()?.parse().ok()?;
            Some(Cursor { state, after: ListPlace { part, weight, number } })
        };
        parse().ok_or(Refusal::BadValue { what: "cursor", why: "is not one that a list gave out" })
    }
}

/// Where a list of arrays continues. Opaque to callers: it only prints and parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayCursor {
    pub(crate) age: u64,
    pub(crate) id: TaskId,
}

impl std::fmt::Display for ArrayCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.age, self.id)
    }
}

impl std::str::FromStr for ArrayCursor {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<ArrayCursor, Refusal> {
        let parse = || {
            let (age, id) = text.split_once(':')?;
            Some(ArrayCursor { age: age.parse().ok()?, id: id.parse().ok()? })
        };
        parse().ok_or(Refusal::BadValue { what: "cursor", why: "is not one that a list gave out" })
    }
}
