//! What a key allows, as far as the hub does not see to it: topics, which stand beside it, and worker ids.

use tenure_hub::words::Refusal;
use tenure_hub::{Grant, TopicAct};
use tenure_wire::Request;

use super::Access;

pub(super) fn check(access: &dyn Access, grant: &Grant, request: &Request) -> Result<(), Refusal> {
    let act = match request {
        Request::Publish(_) => TopicAct::Publish,
        Request::Subscribe(subscribe) => TopicAct::subscribe_to(subscribe.topics.iter().map(AsRef::as_ref)),
        Request::Unsubscribe(_) | Request::PauseSubscription(_) => TopicAct::ChangeSubscription,
        Request::Request(_) => TopicAct::Request,
        Request::Topics(_) | Request::Subscriptions(_) => TopicAct::List,
        Request::Register(spec) => return access.may_work_as(grant, &spec.worker),
        // These become requests of the hub, which refuses what the grant does not allow.
        Request::Show(_)
        | Request::Find(_)
        | Request::Explain(_)
        | Request::List(_)
        | Request::Queues
        | Request::Workers
        | Request::Limits
        | Request::Counts
        | Request::Stats
        | Request::Body(_)
        | Request::Result(_)
        | Request::Checkpoint(_)
        | Request::Watch(_)
        | Request::Unwatch(_)
        | Request::Wait(_)
        | Request::Submit(_)
        | Request::Release(_)
        | Request::Cancel(_)
        | Request::Pause(_)
        | Request::Resume(_)
        | Request::Retry(_)
        | Request::Move(_)
        | Request::SetLimit(_)
        | Request::PauseQueue(_)
        | Request::ResumeQueue(_)
        | Request::DrainWorker(_)
        | Request::ClearWorker(_)
        | Request::Backup(_)
        | Request::Heartbeat(_)
        | Request::Start(_)
        | Request::Progress(_)
        | Request::PutAside(_)
        | Request::Complete(_)
        | Request::Fail(_)
        | Request::Confirm(_)
        | Request::GiveBack(_)
        | Request::Ask(_)
        | Request::Unask
        | Request::Drain
        | Request::Leave
        | Request::Listen(_)
        | Request::Unlisten(_)
        | Request::Call(_)
        | Request::DropCall(_)
        | Request::Answer(_)
        | Request::Broadcast(_)
        | Request::Hear(_)
        | Request::Unhear => return Ok(()),
        Request::Hello(_) | Request::Ping | Request::Unknown { .. } => return Ok(()),
    };
    grant.rights.check(act.needs())
}
