//! Checks the rights that the hub does not check: those for topics and worker ids.

use tenure_hub::topics::SubscriptionId;
use tenure_hub::{HubRefusal, TopicAct};
use tenure_wire::Request;

use super::{ConnectionAccess, Known};

/// Refuses, and names the act for the audit log.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(super) fn check(
    access: &dyn ConnectionAccess,
    peer: &Known,
    request: &Request,
) -> Result<(), (&'static str, HubRefusal)> {
    let act = match request {
        Request::Publish(_) => TopicAct::Publish,
        Request::Subscribe(subscribe) => match (&subscribe.topics[..], &subscribe.id) {
            // It continues with the topics of its subscription.
            ([], Some(id)) if let Ok(id) = SubscriptionId::parse(id) => {
                peer.all_topics.resume_act(&peer.namespace, &id)
            }
            (topics, _) => TopicAct::subscribe_to(topics.iter().map(AsRef::as_ref)),
        },
        Request::Unsubscribe(_) | Request::PauseSubscription(_) | Request::Acknowledge(_) => {
            TopicAct::ChangeSubscription
        }
        Request::Request(_) => TopicAct::Request,
        Request::Topics(_) | Request::Subscriptions(_) => TopicAct::List,
        Request::Register(spec) => {
            return access.may_work_as(&peer.grant, &spec.worker).map_err(|no| ("register", no));
        }
        // These become hub requests, and the hub checks them.
        Request::Show(_)
        | Request::Find(_)
        | Request::Array(_)
        | Request::FindArray(_)
        | Request::Arrays(_)
        | Request::Explain(_)
        | Request::List(_)
        | Request::Queues
        | Request::Workers
        | Request::Limits
        | Request::Hooks
        | Request::Undelivered(_)
        | Request::Redeliver(_)
        | Request::Shares
        | Request::Counts
        | Request::Stats
        | Request::Body(_)
        | Request::Result(_)
        | Request::Checkpoint(_)
        | Request::Logs(_)
        | Request::Watch(_)
        | Request::Unwatch(_)
        | Request::Wait(_)
        | Request::Submit(_)
        | Request::SubmitArray(_)
        | Request::LimitArray(_)
        | Request::Reconcile(_)
        | Request::Release(_)
        | Request::Cancel(_)
        | Request::Pause(_)
        | Request::Resume(_)
        | Request::Retry(_)
        | Request::Move(_)
        | Request::SetLimit(_)
        | Request::SetRate(_)
        | Request::SetShare(_)
        | Request::PauseQueue(_)
        | Request::ResumeQueue(_)
        | Request::SetThresholds(_)
        | Request::SetSchedule(_)
        | Request::PauseSchedule(_)
        | Request::ResumeSchedule(_)
        | Request::RemoveSchedule(_)
        | Request::RunSchedule(_)
        | Request::Schedules
        | Request::Schedule(_)
        | Request::DrainWorker(_)
        | Request::ClearWorker(_)
        | Request::Backup(_)
        | Request::Heartbeat(_)
        | Request::Start(_)
        | Request::Progress(_)
        | Request::SaveCheckpoint(_)
        | Request::Suspend(_)
        | Request::AppendLog(_)
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
    peer.grant.rights.check(act.needs()).map_err(|no| (act.as_str(), no))
}
