//! Waiting for arrays as for tasks.

mod support;

use std::time::Duration;

use support::Broker;
use tenure_door_grpc::proto::tenure::v1 as pb;
use tenure_door_grpc::proto::tenure::v1::tasks_client::TasksClient;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_an_array_and_a_task_ends_with_the_last_of_them() {
    let broker = Broker::start().await;
    let mut client = TasksClient::new(broker.channel().await);
    let terms = pb::Terms { queue: "q".to_owned(), ..pb::Terms::default() };
    let array = pb::SubmitArrayRequest {
        terms: Some(terms.clone()),
        task: Some(pb::NewTask::default()),
        size: 3,
        ..pb::SubmitArrayRequest::default()
    };
    let array = client.submit_array(array).await.expect("it may").into_inner().array;
    let tasks = vec![pb::NewTask::default()];
    let submitted =
        client.submit(pb::SubmitRequest { terms: vec![terms], tasks }).await.expect("it may").into_inner();
    let Some(pb::verdict::Verdict::Accepted(task)) = submitted.tasks[0].verdict.clone() else {
        panic!("{submitted:?}")
    };
    let task = task.task;
    let request =
        pb::WaitRequest { tasks: vec![array.clone(), task.clone(), array.clone()], ..Default::default() };
    // As long as something is left, a wait with a timeout says what.
    let soon = pb::WaitRequest { timeout_ms: Some(50), ..request.clone() };
    let pending = client.wait(soon).await.expect("it is answered").into_inner().pending;
    assert_eq!(pending, request.tasks);
    let mut waiter = client.clone();
    let waiting = tokio::spawn(async move { waiter.wait(request).await });
    for id in [&array, &task] {
        assert!(!waiting.is_finished());
        client.cancel(pb::SteerRequest { task: id.clone(), ..Default::default() }).await.expect("it may");
    }
    let ended = tokio::time::timeout(TIMEOUT, waiting).await.expect("it ends").expect("no panic");
    let mut ended = ended.expect("it is answered").into_inner().ended;
    ended.sort_by_key(|end| end.task != array);
    let rows: Vec<_> = ended.iter().map(|end| (&end.task, &*end.state, &*end.message)).collect();
    assert_eq!(rows, [(&array, "cancelled", "3 cancelled"), (&task, "cancelled", "")]);
}
