//! A wait: answered when all tasks and arrays have ended, or after its timeout.

use std::time::Duration;

use tenure_door_kit::{EndedItem, WaitForEnds};
use tenure_hub::Session;
use tenure_hub::words::Blob;
use tonic::Status;

use crate::flow::{Flow, FlowPermit};
use crate::proto::tenure::v1 as pb;
use crate::translate;

/// How many bytes of results one reply contains; clients can fetch the others.
const RESULT_BYTES: usize = 8 << 20;

/// The reply, and room for the results in it. After a timeout it lists what has ended, and what has not.
pub(crate) async fn wait(
    session: Session,
    request: &pb::WaitRequest,
    flow: &Flow,
) -> Result<(pb::WaitResponse, FlowPermit), Status> {
    let tasks = translate::ids(&request.tasks).map_err(|no| translate::status(&no))?;
    let mut wait = WaitForEnds::new(session, tasks).map_err(|no| translate::status(&no))?;
    let mut ended = Vec::new();
    let on_end = |item: EndedItem<'_>| match item {
        EndedItem::Task(info) => ended.extend(translate::has_ended(info)),
        EndedItem::Array(info) => {
            ended.extend(translate::array_has_ended(info).map(|row| (row, Blob::EMPTY)));
        }
    };
    let timeout = request.timeout_ms.map(Duration::from_millis);
    wait.run(timeout, on_end).await.map_err(|no| translate::status(&no))?;
    let bytes_max = if request.results { RESULT_BYTES } else { 0 };
    let (ended, room) = with_results(wait.session(), ended, bytes_max, flow).await?;
    let pending = wait.left().map(|task| task.to_string()).collect();
    Ok((pb::WaitResponse { ended, pending }, room))
}

/// The rows, with the first results that fit.
async fn with_results(
    session: &Session,
    rows: Vec<(pb::Ended, Blob)>,
    bytes_max: usize,
    flow: &Flow,
) -> Result<(Vec<pb::Ended>, FlowPermit), Status> {
    let mut bytes_left = bytes_max;
    let mut brought = Vec::new();
    for (index, (_, blob)) in rows.iter().enumerate() {
        let bytes = blob.bytes() as usize;
        if bytes_max > 0 && bytes <= bytes_left {
            bytes_left -= bytes;
            brought.push((index, *blob));
        }
    }
    let mut rows: Vec<pb::Ended> = rows.into_iter().map(|(row, _)| row).collect();
    let bytes: u32 = brought.iter().map(|(_, blob)| blob.bytes()).sum();
    let room = flow.room(bytes).await;
    let row_bytes: usize = rows.iter().map(prost::Message::encoded_len).sum();
    let room = flow.charge(room, bytes as usize + row_bytes)?;
    let blobs = brought.iter().map(|(_, blob)| *blob).collect();
    for ((index, _), read) in brought.iter().zip(session.hub().read_many(blobs).await) {
        // A result that cannot be read is missing here; a client that fetches it learns why.
        rows[*index].result = read.ok();
    }
    Ok((rows, room))
}
