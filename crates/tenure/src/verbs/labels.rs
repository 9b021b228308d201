//! Labels of tasks: their names, or the commands they run. A list knows the names; the commands are in the bodies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use futures::stream::{self, StreamExt};
use tenure_client::{ArrayInfo, Client, TaskId, TaskInfo};

use crate::output::label::command_of;

/// A longer body is not read only to show its command.
const BODY_BYTES_MAX: u64 = 64 << 10;
/// How many bodies are read at once.
const READS_AT_ONCE: usize = 64;
/// How many labels are remembered by a command that runs for long.
const REMEMBERED_MAX: usize = 10_000;

/// The labels of tasks that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    known: HashMap<TaskId, String>,
    /// The names of the arrays of tasks that were asked for.
    arrays: HashMap<TaskId, Option<Box<str>>>,
}

impl Labels {
    /// Reads what is not known yet.
    pub(crate) async fn learn(&mut self, client: &Client, tasks: &[TaskInfo]) {
        self.make_room(tasks.len());
        let unknown = tasks.iter().filter(|task| !self.known.contains_key(&task.id));
        let unknown: Vec<&TaskInfo> = unknown.collect();
        for array in unknown.iter().filter_map(|task| task.array) {
            self.learn_array(client, array).await;
        }
        let arrays = &self.arrays;
        let reading = stream::iter(unknown)
            .map(async |task| (task.id, of(client, task, arrays).await))
            .buffer_unordered(READS_AT_ONCE);
        let learnt: Vec<(TaskId, String)> = reading.collect().await;
        self.known.extend(learnt);
    }

    /// The label of one task, which is looked up if it is not known.
    pub(crate) async fn find(&mut self, client: &Client, task: TaskId) -> &str {
        if !self.known.contains_key(&task) {
            self.make_room(1);
            let label = match client.show(task).await {
                Ok(task) => {
                    if let Some(array) = task.array {
                        self.learn_array(client, array).await;
                    }
                    of(client, &task, &self.arrays).await
                }
                Err(_) => match client.array(task).await {
                    Ok(ArrayInfo { name: Some(name), .. }) => name.to_string(),
                    Ok(array) => format!("array of {}", array.size),
                    // It may be forgotten already.
                    Err(_) => String::new(),
                },
            };
            self.known.insert(task, label);
        }
        self.get(task)
    }

    pub(crate) fn get(&self, task: TaskId) -> &str {
        self.known.get(&task).map_or("", String::as_str)
    }

    async fn learn_array(&mut self, client: &Client, array: TaskId) {
        if let Entry::Vacant(vacant) = self.arrays.entry(array) {
            let name = client.array(array).await.ok().and_then(|array| array.name);
            vacant.insert(name.map(|name| name.to_string().into()));
        }
    }

    fn make_room(&mut self, count: usize) {
        if self.known.len() + count > REMEMBERED_MAX {
            self.known.clear();
            self.arrays.clear();
        }
    }
}

async fn of(client: &Client, task: &TaskInfo, arrays: &HashMap<TaskId, Option<Box<str>>>) -> String {
    if let Some(name) = task.name.as_deref() {
        return name.to_owned();
    }
    let array = task.array.and_then(|array| arrays.get(&array)?.as_deref());
    if let (Some(array), Some(index)) = (array, task.index) {
        return format!("{array}[{index}]");
    }
    if task.body_bytes > BODY_BYTES_MAX {
        return String::new();
    }
    // A key may not be allowed to read bodies.
    client.body(task.id).await.ok().and_then(|body| command_of(&body)).unwrap_or_default()
}
