//! The family of a task as a tree: its ancestors up to the root, and what descends from it.
//!
//! A page is rendered again whenever something happens, so the tree takes few queries, however large the family is: one
//! for each ancestor, and one for each task whose children are shown.

use http::StatusCode;
use maud::{Markup, html};
use tenure_hub::words::{Answer, ListQuery, Query, TaskId, TaskInfo, Timestamp};
use tenure_hub::{Request, Response};

use super::format::{ago, count, counted, short};
use super::task_rows;
use crate::problem::ProblemDetails;
use crate::session::HubAccess;
use crate::translate;

/// How many ancestors are shown, the nearest ones.
const ANCESTORS_SHOWN: usize = 8;
/// How many generations below the task are shown, how many children of one task, and how many descendants in all.
const GENERATIONS_SHOWN: usize = 3;
const CHILDREN_SHOWN: usize = 10;
const DESCENDANTS_SHOWN: usize = 40;

#[derive(Debug)]
pub(super) struct Family {
    /// The parent first.
    ancestors: Vec<TaskInfo>,
    /// The parent of the last ancestor: it is not looked at, or no longer kept.
    above: Option<Above>,
    children: Vec<Descendant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Above {
    NotShown(TaskId),
    Forgotten(TaskId),
}

#[derive(Debug)]
struct Descendant {
    task: TaskInfo,
    children: Vec<Descendant>,
}

pub(super) async fn gather(hub: &mut HubAccess, task: &TaskInfo) -> Result<Family, ProblemDetails> {
    let (ancestors, above) = ancestors(hub, task).await?;
    Ok(Family { ancestors, above, children: descendants(hub, task).await? })
}

async fn ancestors(
    hub: &mut HubAccess,
    task: &TaskInfo,
) -> Result<(Vec<TaskInfo>, Option<Above>), ProblemDetails> {
    let mut found: Vec<TaskInfo> = Vec::new();
    let mut next = task.parent;
    while let Some(parent) = next {
        if found.len() == ANCESTORS_SHOWN {
            return Ok((found, Some(Above::NotShown(parent))));
        }
        let info = match hub.task(Query::Show { task: parent }).await {
            Ok(info) => info,
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                return Ok((found, Some(Above::Forgotten(parent))));
            }
            Err(problem) => return Err(problem),
        };
        next = info.parent;
        found.push(info);
    }
    Ok((found, None))
}

/// Generation by generation, so that a large branch does not leave the others without room.
async fn descendants(hub: &mut HubAccess, task: &TaskInfo) -> Result<Vec<Descendant>, ProblemDetails> {
    let mut generations: Vec<Vec<(TaskId, Vec<TaskInfo>)>> = Vec::new();
    let mut parents: Vec<TaskId> = if task.children > 0 { vec![task.id] } else { Vec::new() };
    let mut room = DESCENDANTS_SHOWN;
    while !parents.is_empty() && room > 0 && generations.len() < GENERATIONS_SHOWN {
        parents.truncate(room);
        let each = CHILDREN_SHOWN.min(room / parents.len());
        let generation = children_of(hub, &parents, each).await?;
        let born = generation.iter().flat_map(|(_, children)| children);
        parents = born.clone().filter(|child| child.children > 0).map(|child| child.id).collect();
        room -= born.count();
        generations.push(generation);
    }
    // From the last generation up, each child takes its own children.
    let mut below: Vec<(TaskId, Vec<Descendant>)> = Vec::new();
    for generation in generations.into_iter().rev() {
        let mut with_children = |task: TaskInfo| {
            let place = below.iter().position(|(parent, _)| *parent == task.id);
            let children = place.map(|place| below.swap_remove(place).1).unwrap_or_default();
            Descendant { task, children }
        };
        below = generation
            .into_iter()
            .map(|(parent, children)| (parent, children.into_iter().map(&mut with_children).collect()))
            .collect();
    }
    Ok(below.pop().map(|(_, children)| children).unwrap_or_default())
}

/// The oldest children of each of these tasks, in one request.
async fn children_of(
    hub: &mut HubAccess,
    parents: &[TaskId],
    each: usize,
) -> Result<Vec<(TaskId, Vec<TaskInfo>)>, ProblemDetails> {
    let list = |parent: &TaskId| {
        let query = ListQuery { parent: Some(*parent), limit: each, ..ListQuery::default() };
        Request::Query(Query::List(Box::new(query)))
    };
    let asked = hub.ask_many(parents.iter().map(list).collect()).await;
    let replies = asked.map_err(|no| translate::problem(&no))?;
    let lists = parents.iter().zip(replies).map(|(parent, reply)| match reply {
        Ok(Response::Answer(Answer::Tasks { tasks, .. })) => Ok((*parent, tasks)),
        Ok(_) => Err(ProblemDetails::unexpected()),
        Err(no) => Err(translate::problem(&no)),
    });
    lists.collect()
}

impl Family {
    pub(super) fn card(&self, task: &TaskInfo, now: Timestamp) -> Markup {
        let is_alone = task.parent.is_none() && task.children == 0;
        html! {
            h2 #family-title {
                "Family"
                @if task.children > 0 {
                    small { (counted(u64::from(task.children), "child", "children")) }
                    a.more href={ "/tasks?parent=" (task.id) } { "All children" }
                }
            }
            @if is_alone { p.empty { "No parent and no children." } }
            @else { ul.tree { (self.rooted(task, now)) } }
        }
    }

    fn rooted(&self, task: &TaskInfo, now: Timestamp) -> Markup {
        let mut tree = html! {
            li {
                (task_rows::badge(task.state.name())) " " strong aria-current="true" { (label(task)) }
                (branch(task, &self.children, now))
            }
        };
        for ancestor in &self.ancestors {
            let others = ancestor.children.saturating_sub(1);
            tree = html! {
                li {
                    (line(ancestor, now))
                    ul { (tree) @if others > 0 { (more(ancestor.id, others)) } }
                }
            };
        }
        match self.above {
            None => tree,
            Some(Above::NotShown(parent)) => html! {
                li { a href={ "/tasks/" (parent) } { "Further ancestors" } ul { (tree) } }
            },
            Some(Above::Forgotten(parent)) => html! {
                li { span.mono { (short(parent)) } " " span.muted { "no longer kept" } ul { (tree) } }
            },
        }
    }
}

fn branch(task: &TaskInfo, children: &[Descendant], now: Timestamp) -> Markup {
    let left = task.children.saturating_sub(children.len() as u32);
    html! {
        @if !children.is_empty() || left > 0 {
            ul {
                @for child in children { li { (line(&child.task, now)) (branch(&child.task, &child.children, now)) } }
                @if left > 0 { (more(task.id, left)) }
            }
        }
    }
}

fn line(task: &TaskInfo, now: Timestamp) -> Markup {
    html! {
        (task_rows::badge(task.state.name())) " "
        a href={ "/tasks/" (task.id) } { (label(task)) }
        " " span.muted { (ago(task.submitted_at, now)) }
    }
}

fn label(task: &TaskInfo) -> Markup {
    html! { @match &task.name { Some(name) => { (name) } None => { span.mono { (short(task.id)) } } } }
}

fn more(parent: TaskId, left: u32) -> Markup {
    html! { li { a href={ "/tasks?parent=" (parent) } { (count(u64::from(left))) " more" } } }
}
