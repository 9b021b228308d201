//! Plans: tasks that stay held until they are deleted. So they are durable and visible through every door.
//!
//! A plan is two tasks: its place, which has the plan's name, and the recipe, a child of the place. Deleting
//! cancels both. The broker remembers ended tasks, and their names, for a while. So a plan that is stored again
//! resumes its place and adds a new recipe to it. One query finds a plan, whatever the broker has forgotten
//! meanwhile.

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_hub::keyspace::{Command as KeyCommand, KeyCommand as OnKey};
use tenure_hub::words::{
    Blob, Command, ListQuery, Name, NewTask, Refusal, StateName, TaskId, TaskInfo, Timestamp,
};
use tenure_hub::{HubRefusal, Request, Submission, fresh_id};
use tenure_plans::Plan;

use super::CallerInfo;
use super::actions::ActionSubmission;
use super::jobs::{JobView, Keep, of_bare_plan};
use super::lookup::{AfterList, AfterName, AfterReopen, LookupResult, find_name, list, reopen_task};
use super::names::{PLANS, live_states, plan_name, plan_tag, recipe_name};
use super::refusals::refusal;
use super::render::time;
use super::submit::{PlannedJob, accepted};
use super::views::{AfterValue, ViewFlow};
use crate::codec::Reply;
use crate::command::{PlanAnswer, PlanCommand};
use crate::flow::{CommandFlow, FlowStep, Input};
use crate::json::SubmittedAction;
use crate::key::RespKey;

/// How many jobs of a plan are counted: one page, because workers ask for the plan of every job.
const USES_MAX: usize = 1000;

/// The state of a waiting command on plans.
#[derive(Debug)]
pub(crate) enum PlanFlow {
    Reading {
        plan: String,
        then: AfterPlan,
    },
    /// Compares the stored plan with the submitted one.
    Comparing {
        plan: String,
        json: Value,
        then: AfterStore,
    },
    StoringFirst {
        plan: String,
        then: AfterStore,
    },
    StoringAgain {
        plan: String,
        place: TaskId,
        own: TaskId,
        then: AfterStore,
    },
    /// Another recipe was first.
    SteppingBack {
        plan: String,
        then: AfterStore,
    },
    Deleting {
        plan: String,
    },
    DeletingMetadata,
    /// Its words, and then what it was used for.
    Getting(Box<TaskInfo>),
    Describing {
        task: Box<TaskInfo>,
        left: Vec<TaskInfo>,
        shown: Vec<Reply>,
    },
}

impl PlanFlow {
    fn ask(self, request: Request) -> FlowStep {
        FlowStep::Ask(request, CommandFlow::Plan(self))
    }

    fn read(self, blob: Blob) -> FlowStep {
        FlowStep::Read(vec![blob], CommandFlow::Plan(self))
    }

    pub(crate) fn resume(self, now: Timestamp, input: Input) -> FlowStep {
        match self {
            Self::Reading { plan, then } => match input.read() {
                Err(reason) => FlowStep::Reply(refusal(&reason)),
                Ok(body) => match (Plan::parse(&body), serde_json::from_slice(&body)) {
                    (Ok(plan), Ok(json)) => then.go(now, plan, json),
                    _ => FlowStep::error(format!("ERR Plan not found: {plan}")),
                },
            },
            Self::Comparing { plan, json, then } => {
                let same = input.read().is_ok_and(|body| body == json.to_string());
                then.go(if same { Ok(()) } else { Err(exists(&plan)) })
            }
            Self::StoringFirst { plan, then } => then.go(match accepted(input.answer()) {
                Ok(_) => Ok(()),
                Err(HubRefusal::Engine(Refusal::BadParent { .. } | Refusal::NameTaken { .. })) => {
                    Err(exists(&plan))
                }
                Err(reason) => Err(refusal(&reason)),
            }),
            Self::StoringAgain { plan, place, own, then } => match accepted(input.answer()) {
                Err(HubRefusal::Engine(Refusal::BadParent { .. })) => {
                    let text = format!("ERR Plan {plan} was deleted meanwhile, submit it again");
                    then.go(Err(Reply::error(text)))
                }
                Err(reason) => then.go(Err(refusal(&reason))),
                Ok(_) => first_recipe(place, AfterRecipe::Stored { plan, own, then }),
            },
            Self::SteppingBack { plan, then } => then.go(Err(exists(&plan))),
            Self::Deleting { plan } => match (input.answer(), (RespKey::Plan { id: plan }).metadata()) {
                (Err(reason), _) => FlowStep::Reply(refusal(&reason)),
                (Ok(_), None) => FlowStep::Reply(Reply::Integer(1)),
                (Ok(_), Some(name)) => {
                    let delete = KeyCommand::Key(OnKey::Delete { keys: vec![name] });
                    FlowStep::Keys(delete, CommandFlow::Plan(Self::DeletingMetadata))
                }
            },
            // The plan is gone, even if deleting its metadata failed.
            Self::DeletingMetadata => FlowStep::Reply(Reply::Integer(1)),
            Self::Getting(recipe) => match input.read() {
                Err(reason) => FlowStep::Reply(refusal(&reason)),
                Ok(body) => uses(&recipe, &body),
            },
            Self::Describing { task, left, mut shown } => {
                let plan = input.read().ok().and_then(|body| serde_json::from_slice(&body).ok());
                shown.push(described(&task, &plan.unwrap_or(Value::Null)));
                describe(left, shown)
            }
        }
    }
}

/// What to do with a stored plan: as parsed, and as submitted.
#[derive(Debug)]
pub(crate) enum AfterPlan {
    Action(Box<(SubmittedAction, CallerInfo)>),
    Job(Box<PlannedJob>, Value),
}

impl AfterPlan {
    fn go(self, now: Timestamp, plan: Plan, json: Value) -> FlowStep {
        match self {
            Self::Action(submit) => {
                let (submitted, speaker) = *submit;
                ActionSubmission::find(submitted, speaker, now, plan, json)
            }
            Self::Job(job, input) => job.of_stored(&plan, &json, &input),
        }
    }
}

/// What to do with the task that holds a plan's recipe.
#[derive(Debug)]
pub(crate) enum AfterFindPlan {
    With {
        plan: String,
        then: AfterPlan,
    },
    Get {
        plan: String,
    },
    Value(AfterValue),
    /// No jobs were found of a plan that a bare word names.
    Bare {
        plan: String,
        view: JobView,
    },
}

impl AfterFindPlan {
    fn go(self, found: Option<Box<TaskInfo>>) -> FlowStep {
        match self {
            Self::With { plan, then } => match found {
                Some(recipe) => PlanFlow::Reading { plan, then }.read(recipe.body),
                None => FlowStep::error(format!("ERR Plan not found: {plan}")),
            },
            Self::Get { plan } => match found {
                Some(recipe) => {
                    let body = recipe.body;
                    PlanFlow::Getting(recipe).read(body)
                }
                None => FlowStep::error(format!("ERR Plan not found: {plan}")),
            },
            Self::Value(then) => match found {
                Some(recipe) => {
                    FlowStep::Read(vec![recipe.body], CommandFlow::View(ViewFlow::ReadingPlan(then)))
                }
                None => then.go(None),
            },
            Self::Bare { plan, view } => FlowStep::Reply(of_bare_plan(plan, view, found.is_some())),
        }
    }
}

/// What to do with the place of a plan.
#[derive(Debug)]
pub(crate) enum AfterPlace {
    Find(AfterFindPlan),
    Submit {
        plan: String,
        json: Value,
        answer: PlanAnswer,
    },
    /// The same plan twice is one; a different one under its id is refused.
    Store {
        plan: String,
        json: Value,
        then: AfterStore,
    },
    Delete {
        plan: String,
    },
}

impl AfterPlace {
    fn go(self, place: PlanPlace) -> FlowStep {
        match self {
            Self::Find(then) => match place {
                PlanPlace::Open { recipe, .. } => then.go(recipe),
                PlanPlace::None | PlanPlace::Ended(_) | PlanPlace::Taken => then.go(None),
            },
            Self::Submit { plan, json, answer } => {
                store(plan.clone(), &json, &place, AfterStore::Submitted { plan, answer })
            }
            Self::Store { plan, json, then } => match place {
                PlanPlace::Open { recipe: Some(recipe), .. } => {
                    PlanFlow::Comparing { plan, json, then }.read(recipe.body)
                }
                place => store(plan, &json, &place, then),
            },
            Self::Delete { plan } => {
                let PlanPlace::Open { place, recipe: Some(_) } = place else {
                    return FlowStep::Reply(Reply::Integer(0));
                };
                let jobs =
                    ListQuery { states: live_states(), tag: Some(plan_tag(&plan)), ..ListQuery::default() };
                list(jobs, 1, Keep::All, AfterList::JobsOfPlan { plan, place })
            }
        }
    }
}

/// What to do with the first recipe of a place.
#[derive(Debug)]
pub(crate) enum AfterRecipe {
    Place { place: TaskId, then: AfterPlace },
    Stored { plan: String, own: TaskId, then: AfterStore },
}

impl AfterRecipe {
    pub(super) fn go(self, first: Option<Box<TaskInfo>>) -> FlowStep {
        match self {
            Self::Place { place, then } => then.go(PlanPlace::Open { place, recipe: first }),
            Self::Stored { plan, own, then } => {
                if first.is_some_and(|first| first.id == own) {
                    return then.go(Ok(()));
                }
                let cancel =
                    Command::Cancel { task: own, reason: Some("another submission was first".into()) };
                PlanFlow::SteppingBack { plan, then }.ask(Request::Command(cancel))
            }
        }
    }
}

/// What to do after a plan is stored.
#[derive(Debug)]
pub(crate) enum AfterStore {
    Submitted { plan: String, answer: PlanAnswer },
    Job(Box<PlannedJob>),
}

impl AfterStore {
    fn go(self, stored: Result<(), Reply>) -> FlowStep {
        match (self, stored) {
            (_, Err(reply)) => FlowStep::Reply(reply),
            (Self::Submitted { plan, answer }, Ok(())) => FlowStep::Reply(match answer {
                PlanAnswer::Id => Reply::bulk(plan),
                PlanAnswer::FieldsAdded => Reply::Integer(1),
            }),
            (Self::Job(job), Ok(())) => job.submit(),
        }
    }
}

pub(super) fn start(command: PlanCommand) -> FlowStep {
    match command {
        PlanCommand::Submit { plan, json, answer } => {
            let json: Value = serde_json::from_slice(&json).unwrap_or(Value::Null);
            look_up(&plan.id.clone(), AfterPlace::Submit { plan: plan.id, json, answer })
        }
        PlanCommand::Get { plan } => find_plan(&plan.clone(), AfterFindPlan::Get { plan }),
        PlanCommand::List { pattern, page } => {
            let limit = page.offset.saturating_add(page.limit);
            list(held_in(PLANS), limit, Keep::Plans { pattern }, AfterList::Plans { page })
        }
        PlanCommand::Delete { plan } => look_up(&plan.clone(), AfterPlace::Delete { plan }),
    }
}

/// Finds a stored plan. Replies with an error if there is none.
pub(super) fn with_plan(plan: String, then: AfterPlan) -> FlowStep {
    find_plan(&plan.clone(), AfterFindPlan::With { plan, then })
}

/// Stores a plan that came along with a job.
pub(super) fn store_plan(plan: String, json: Value, then: AfterStore) -> FlowStep {
    look_up(&plan.clone(), AfterPlace::Store { plan, json, then })
}

/// The task that holds a plan's recipe.
pub(super) fn find_plan(plan: &str, then: AfterFindPlan) -> FlowStep {
    look_up(plan, AfterPlace::Find(then))
}

/// The place of a plan, existing or possible.
enum PlanPlace {
    None,
    /// Remembered from a plan that was deleted.
    Ended(TaskId),
    /// A place without a recipe: a client was disconnected while storing the plan.
    Open {
        place: TaskId,
        recipe: Option<Box<TaskInfo>>,
    },
    /// The name belongs to a task of another door.
    Taken,
}

fn look_up(plan: &str, then: AfterPlace) -> FlowStep {
    find_name(plan_name(plan), AfterName::Plan(then))
}

pub(super) fn found_place(then: AfterPlace, found: LookupResult) -> FlowStep {
    match found {
        Err(_) => then.go(PlanPlace::None),
        Ok(task) if *task.terms.queue != *PLANS => then.go(PlanPlace::Taken),
        Ok(task) if task.state.name().has_ended() => then.go(PlanPlace::Ended(task.id)),
        Ok(task) => first_recipe(task.id, AfterRecipe::Place { place: task.id, then }),
    }
}

fn first_recipe(place: TaskId, then: AfterRecipe) -> FlowStep {
    let recipes = ListQuery { parent: Some(place), ..held_in(PLANS) };
    list(recipes, 1, Keep::All, AfterList::Recipe(then))
}

fn store(plan: String, json: &Value, place: &PlanPlace, then: AfterStore) -> FlowStep {
    let body = Bytes::from(json.to_string());
    match *place {
        PlanPlace::None => store_first(plan, body, then),
        PlanPlace::Ended(place) => {
            reopen_task(place, AfterReopen::Plan(Box::new(NewRecipe { plan, body, place, then })))
        }
        PlanPlace::Open { place, recipe: None } => NewRecipe { plan, body, place, then }.store_again(),
        PlanPlace::Open { recipe: Some(_), .. } | PlanPlace::Taken => then.go(Err(exists(&plan))),
    }
}

/// Submits the place and the recipe together. If another client has created the place meanwhile, the recipe has no
/// parent and is refused.
fn store_first(plan: String, body: Bytes, then: AfterStore) -> FlowStep {
    let mut place = NewTask::new(fresh_id(), PLANS);
    place.name = Some(plan_name(&plan));
    place.hold = true;
    let recipe = recipe(&plan, place.id, body);
    let both = vec![Submission::new(place, Bytes::new()), recipe];
    PlanFlow::StoringFirst { plan, then }.ask(Request::Submit(both))
}

/// A recipe for an existing place.
#[derive(Debug)]
pub(crate) struct NewRecipe {
    plan: String,
    body: Bytes,
    place: TaskId,
    then: AfterStore,
}

impl NewRecipe {
    /// Of two at the same time, the first one stays.
    pub(super) fn store_again(self) -> FlowStep {
        let Self { plan, body, place, then } = self;
        let recipe = recipe(&plan, place, body);
        let own = recipe.task.id;
        PlanFlow::StoringAgain { plan, place, own, then }.ask(Request::Submit(vec![recipe]))
    }
}

fn recipe(plan: &str, place: TaskId, body: Bytes) -> Submission {
    let mut task = NewTask::new(fresh_id(), PLANS);
    task.name = Some(recipe_name(plan, task.id));
    task.parent = Some(place);
    task.hold = true;
    Submission::new(task, body)
}

fn exists(plan: &str) -> Reply {
    Reply::error(format!("ERR Plan already exists: {plan}"))
}

/// Looks for the jobs of a plan, to say what it was used for.
fn uses(recipe: &TaskInfo, body: &Bytes) -> FlowStep {
    let Ok(mut plan) = serde_json::from_slice::<Value>(body) else {
        return FlowStep::Reply(Reply::bulk(body.clone()));
    };
    plan["metadata"] = json!({"created_at": time(recipe.submitted_at)});
    let tag = plan["plan_id"].as_str().map(plan_tag);
    let jobs = ListQuery { tag, ..ListQuery::default() };
    list(jobs, USES_MAX, Keep::All, AfterList::UsesOfPlan { plan: Box::new(plan) })
}

/// A plan with what the broker remembers of its use.
pub(super) fn with_uses(mut plan: Value, jobs: &[TaskInfo]) -> Reply {
    let mut actions: Vec<TaskId> = jobs.iter().filter_map(|job| job.parent).collect();
    actions.sort_unstable();
    actions.dedup();
    let metadata = &mut plan["metadata"];
    metadata["total_actions"] = actions.len().into();
    metadata["total_jobs"] = jobs.len().into();
    metadata["last_used"] = jobs.iter().map(|job| job.submitted_at).max().map_or(Value::Null, time);
    Reply::bulk(plan.to_string())
}

/// Reads one plan after the other, the last of them first.
pub(super) fn describe(mut left: Vec<TaskInfo>, shown: Vec<Reply>) -> FlowStep {
    let Some(task) = left.pop().map(Box::new) else { return FlowStep::Reply(Reply::Array(shown)) };
    let body = task.body;
    PlanFlow::Describing { task, left, shown }.read(body)
}

fn described(task: &TaskInfo, plan: &Value) -> Reply {
    let steps = plan["tasks"].as_array().map_or(0, Vec::len);
    let summary = json!({
        "plan_id": plan["plan_id"], "plan_description": plan["plan_description"],
        "description": plan["plan_description"], "task_count": steps, "created_at": time(task.submitted_at),
    });
    Reply::bulk(summary.to_string())
}

/// Deletes a plan, unless jobs of it have not ended, and the metadata that clients keep beside it.
pub(super) fn delete(plan: String, place: TaskId, jobs: &[TaskInfo]) -> FlowStep {
    if !jobs.is_empty() {
        return FlowStep::error("ERR Cannot delete plan with active jobs");
    }
    let cancel = Command::Cancel { task: place, reason: Some("the plan was deleted".into()) };
    PlanFlow::Deleting { plan }.ask(Request::Command(cancel))
}

pub(super) fn held_in(queue: &str) -> ListQuery {
    let states = vec![StateName::Created, StateName::Ready, StateName::Paused];
    ListQuery { states, queue: Some(Name::from(queue)), ..ListQuery::default() }
}
