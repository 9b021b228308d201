//! Bytes and messages: what is encoded by parts is the same on the wire, and no bytes at all do harm.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use tenure_door_grpc::codec::{EncodedEvent, decode};
use tenure_door_grpc::proto::sidecar as sidecar_pb;
use tenure_door_grpc::proto::tenure::v1 as pb;

#[test]
fn an_event_whose_message_is_encoded_already_is_the_same_on_the_wire() {
    let message = sidecar_pb::Message {
        message_id: "7".to_owned(),
        topic: "sensor.hall".to_owned(),
        payload: Bytes::from(vec![b'x'; 300]),
        sequence_number: 1 << 40,
        ..sidecar_pb::Message::default()
    };
    let inner = Bytes::from(message.encode_to_vec());
    let event = sidecar_pb::message_event::Event::ReplayMessage(message);
    let whole = sidecar_pb::MessageEvent { event: Some(event) }.encode_to_vec();
    let parts = EncodedEvent { field: 5, message: inner };
    assert_eq!(parts.encode_to_vec(), whole);
    assert_eq!(parts.encoded_len(), whole.len());
    assert_eq!(EncodedEvent::decode(&whole[..]).unwrap(), parts);
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let bytes = Bytes::from(bytes);
        let _ = decode::<pb::SubmitRequest>(bytes.clone());
        let _ = decode::<pb::WorkerMessage>(bytes.clone());
        let _ = decode::<pb::WatchRequest>(bytes.clone());
        let _ = decode::<sidecar_pb::PublishRequest>(bytes.clone());
        let _ = decode::<sidecar_pb::ResumeSubscribeRequest>(bytes);
    }

    #[test]
    fn what_is_a_message_is_decoded_as_it_was(
        tasks in proptest::collection::vec((any::<Vec<u8>>(), ".{0,8}", any::<Option<i32>>()), 0..20),
        tags in proptest::collection::vec(".{0,8}", 0..10),
    ) {
        let new = |(body, name, priority): (Vec<u8>, String, Option<i32>)| {
            pb::NewTask { body: body.into(), name, priority, ..pb::NewTask::default() }
        };
        let terms = vec![pb::Terms { tags, ..pb::Terms::default() }];
        let request = pb::SubmitRequest { terms, tasks: tasks.into_iter().map(new).collect() };
        let decoded = decode::<pb::SubmitRequest>(request.encode_to_vec().into()).unwrap();
        prop_assert_eq!(decoded, request);
    }
}
