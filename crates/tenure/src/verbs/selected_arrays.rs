//! Arrays that `--where` selects: as wholes, or their elements by the array's name.

use tenure_client::{ArrayInfo, Client, TaskId, TaskInfo, Timestamp};

use super::list::has_meant;
use super::select::Selection;
use crate::exit::Failure;

/// How many arrays are looked at.
pub(crate) const ARRAYS_READ_MAX: usize = 10_000;

/// What a selection asks of an array, besides its name and the states of its elements.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfArray {
    queue: Option<String>,
    submitter: Option<String>,
    after: Option<Timestamp>,
    before: Option<Timestamp>,
    /// It asks for something in which the elements of one array differ.
    is_of_elements: bool,
}

impl OfArray {
    /// Takes one key of `--where`.
    pub(super) fn ask(
        &mut self,
        key: &str,
        value: &str,
        time: impl Fn() -> Result<Timestamp, Failure>,
    ) -> Result<(), Failure> {
        match key {
            "queue" => self.queue = Some(value.to_owned()),
            "submitter" => self.submitter = Some(value.to_owned()),
            "after" | "since" => self.after = Some(time()?),
            "before" => self.before = Some(time()?),
            "state" | "states" | "name" => {}
            _ => self.is_of_elements = true,
        }
        Ok(())
    }

    fn takes(&self, array: &ArrayInfo) -> bool {
        self.queue.as_deref().is_none_or(|queue| queue == &*array.queue)
            && self.submitter.as_deref().is_none_or(|name| Some(name) == array.submitter.as_deref())
            && self.after.is_none_or(|after| array.submitted_at >= after)
            && self.before.is_none_or(|before| array.submitted_at < before)
    }
}

impl Selection {
    /// Whether an array counts as one: it is found by its name, and its elements do not differ in anything else that is
    /// asked for.
    pub(crate) fn takes_arrays(&self) -> bool {
        self.is_by_name() && self.is_of_whole_arrays()
    }

    /// Whether the elements of an array do not differ in anything that is asked for, except in their states.
    pub(crate) fn is_of_whole_arrays(&self) -> bool {
        !self.of_array.is_of_elements
    }

    /// Whether an array is meant, as far as it says by itself.
    pub(crate) fn takes_array(&self, array: &ArrayInfo) -> bool {
        self.has_name(array.name.as_deref()) && self.of_array.takes(array)
    }

    /// Finds out which arrays have the name that is asked for: their elements have none.
    pub(crate) async fn learn_arrays(&mut self, client: &Client) -> Result<(), Failure> {
        if self.is_by_name() {
            let arrays = client.arrays(ARRAYS_READ_MAX).await?;
            let meant = arrays.iter().filter(|array| self.has_name(array.name.as_deref()));
            self.arrays = meant.map(|array| array.id).collect();
        }
        Ok(())
    }

    /// The arrays that are meant and have an element that is meant.
    pub(crate) async fn whole_arrays(
        &self,
        client: &Client,
        fits: impl Fn(&TaskInfo) -> bool,
    ) -> Result<Vec<TaskId>, Failure> {
        let mut meant = Vec::new();
        for array in client.arrays(ARRAYS_READ_MAX).await? {
            if self.takes_array(&array) && has_meant(client, &array, self, &fits).await? {
                meant.push(array.id);
            }
        }
        Ok(meant)
    }
}
