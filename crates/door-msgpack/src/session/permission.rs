//! What a key allows, request by request.

use tenure_hub::Grant;
use tenure_hub::words::Refusal;
use tenure_wire::Request;

/// Looking is allowed to everybody who may come in.
pub(super) fn check(grant: &Grant, request: &Request) -> Result<(), Refusal> {
    let (allowed, what) = match request {
        Request::Hello(_)
        | Request::Ping
        | Request::Show(_)
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
        | Request::Topics(_)
        | Request::Subscriptions(_)
        | Request::Unknown { .. } => return Ok(()),
        Request::Submit(_)
        | Request::Release(_)
        | Request::Cancel(_)
        | Request::Pause(_)
        | Request::Resume(_)
        | Request::Retry(_)
        | Request::Move(_) => (grant.may_submit, "submit and steer tasks"),
        Request::SetLimit(_)
        | Request::PauseQueue(_)
        | Request::ResumeQueue(_)
        | Request::DrainWorker(_)
        | Request::ClearWorker(_)
        | Request::Backup(_) => (grant.may_manage, "manage the broker"),
        Request::Register(spec) => {
            let bound_to_another = grant.worker.as_ref().is_some_and(|worker| *worker != spec.worker);
            if bound_to_another {
                return Err(Refusal::NotAllowed { what: "register a worker of this name" });
            }
            (grant.may_work, "work")
        }
        Request::Heartbeat(_)
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
        | Request::Leave => (grant.may_work, "work"),
        Request::Listen(_)
        | Request::Unlisten(_)
        | Request::Call(_)
        | Request::DropCall(_)
        | Request::Answer(_)
        | Request::Broadcast(_)
        | Request::Hear(_)
        | Request::Unhear => (grant.may_submit || grant.may_work, "call others"),
        Request::Publish(_)
        | Request::Subscribe(_)
        | Request::Unsubscribe(_)
        | Request::PauseSubscription(_)
        | Request::Request(_) => (grant.may_submit || grant.may_work, "use topics"),
    };
    if allowed { Ok(()) } else { Err(Refusal::NotAllowed { what }) }
}
