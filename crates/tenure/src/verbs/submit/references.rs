//! Other tasks that a submission names: short ids and elements of arrays become whole ids before it is sent.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tenure_client::{Client, Code, Error};

use super::options::{Options, split_condition};
use crate::exit::{Failure, REFUSED};
use crate::verbs::which::{is_part_of_id, resolve, split_element};

/// How many texts are remembered.
const REMEMBERED_MAX: usize = 100_000;

/// Looks up what submissions refer to, each text once.
#[derive(Debug)]
pub(crate) struct References<'a> {
    client: &'a Client,
    known: HashMap<String, String>,
    /// Names of earlier lines, which the broker may not know yet.
    names: HashSet<String>,
}

impl References<'_> {
    pub(crate) fn new(client: &Client) -> References<'_> {
        References { client, known: HashMap::new(), names: HashSet::new() }
    }

    /// The fields of a JSON line with whole ids in `after` and `parent`.
    pub(crate) async fn in_fields(&mut self, fields: &mut Map<String, Value>) -> Result<(), Failure> {
        match fields.get_mut("after") {
            Some(Value::String(text)) => *text = self.after(text).await?,
            Some(Value::Array(list)) => {
                for value in list {
                    if let Value::String(text) = value {
                        *text = self.after(text).await?;
                    }
                }
            }
            // Reading the line refuses everything else.
            _ => {}
        }
        if let Some(Value::String(parent)) = fields.get_mut("parent") {
            *parent = resolve(self.client, parent).await?.to_string();
        }
        if let Some(Value::String(name)) = fields.get("name")
            && self.names.len() < REMEMBERED_MAX
        {
            self.names.insert(name.clone());
        }
        Ok(())
    }

    /// A task to wait for. The broker knows whole ids and names itself.
    async fn after(&mut self, text: &str) -> Result<String, Failure> {
        let (task, condition) = split_condition(text);
        let is_clear = task.parse::<tenure_client::TaskId>().is_ok() || self.names.contains(task);
        let may_be_other = is_part_of_id(task) || split_element(task).is_some();
        if is_clear || !may_be_other {
            return Ok(text.to_owned());
        }
        if !self.known.contains_key(task) {
            let found = self.look_up(task).await?;
            if self.known.len() >= REMEMBERED_MAX {
                self.known.clear();
            }
            self.known.insert(task.to_owned(), found);
        }
        Ok(format!("{}:{condition}", self.known[task]))
    }

    /// A name comes first. What is neither a name nor an id stays as it is, and the broker says so.
    async fn look_up(&self, task: &str) -> Result<String, Failure> {
        let name = task.strip_prefix("name:").unwrap_or(task);
        if self.is_name(name).await? {
            return Ok(format!("name:{name}"));
        }
        let resolved = match split_element(task) {
            Some((array, index)) if !array.starts_with("name:") && self.is_name(array).await? => {
                resolve(self.client, &format!("name:{array}[{index}]")).await
            }
            _ => resolve(self.client, task).await,
        };
        match resolved {
            Ok(id) => Ok(id.to_string()),
            Err(failure) if failure.code == REFUSED && split_element(task).is_none() => Ok(task.to_owned()),
            Err(failure) => Err(failure),
        }
    }

    async fn is_name(&self, name: &str) -> Result<bool, Failure> {
        let is_known = |found: Result<(), Error>| match found {
            Ok(()) => Ok(true),
            Err(Error::Refused(no)) if no.code == Code::UnknownName => Ok(false),
            Err(error) => Err(Failure::from(error)),
        };
        Ok(is_known(self.client.find(name).await.map(drop))?
            || is_known(self.client.find_array(name).await.map(drop))?)
    }
}

impl Options {
    /// The same with whole ids in `--after` and `--parent`.
    pub(crate) async fn resolved(&self, client: &Client) -> Result<Options, Failure> {
        let mut options = self.clone();
        let mut references = References::new(client);
        for text in &mut options.after {
            *text = references.after(text).await?;
        }
        if let Some(parent) = &mut options.parent {
            *parent = resolve(client, parent).await?.to_string();
        }
        Ok(options)
    }
}
