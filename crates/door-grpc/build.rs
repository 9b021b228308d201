//! Compiles the protocol files with a compiler that is a crate, so that nothing has to be installed to build this.

use std::fmt::Write as _;
use std::path::PathBuf;

use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

const FILES: [&str; 7] = [
    "nexusd/sidecar.proto",
    "tenure/v1/broker.proto",
    "tenure/v1/common.proto",
    "tenure/v1/schedules.proto",
    "tenure/v1/tasks.proto",
    "tenure/v1/topics.proto",
    "tenure/v1/workers.proto",
];
/// Streams of these send what is encoded already.
const EVENT: &str = ".nexusd.sidecar.MessageEvent";
const ENCODED_EVENT: &str = ".nexusd.sidecar.EncodedEvent";

fn main() {
    for file in FILES {
        println!("cargo::rerun-if-changed=proto/{file}");
    }
    let mut files = protox::compile(FILES, ["proto"]).expect("the protocol files are well-formed");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where"));
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(out.join(name), bytes).expect("the output can be written");
    };
    write("descriptors.bin", &files.encode_to_vec());
    write("schema.rs", schema(&files).as_bytes());
    send_encoded(&mut files);
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .codec_path("crate::codec::Codec")
        .extern_path(ENCODED_EVENT, "crate::codec::EncodedEvent")
        .compile_fds(files)
        .expect("the protocol files can be compiled");
}

/// Lets the streams of events carry bytes instead of a message; on the wire it is the same.
fn send_encoded(files: &mut FileDescriptorSet) {
    let services = files.file.iter_mut().flat_map(|file| &mut file.service);
    for method in services.flat_map(|service| &mut service.method) {
        if method.output_type() == EVENT {
            method.output_type = Some(ENCODED_EVENT.to_owned());
        }
    }
}

/// For each message, which of its fields are messages: what the codec has to know to count before it decodes.
fn schema(files: &FileDescriptorSet) -> String {
    let mut text = String::new();
    for file in &files.file {
        for message in &file.message_type {
            let path = rust_path(&format!(".{}.{}", file.package(), message.name()));
            let fields: Vec<String> =
                message.field.iter().filter_map(|field| nested(message, field)).collect();
            let fields = fields.join(", ");
            writeln!(text, "impl HasSchema for {path} {{ const SCHEMA: &'static MessageSchema = &MessageSchema(&[{fields}]); }}")
                .expect("a text takes everything");
        }
    }
    text
}

/// A field that is a message, with its shape. The entries of a map have no messages of ours in them.
fn nested(message: &DescriptorProto, field: &prost_types::FieldDescriptorProto) -> Option<String> {
    if field.r#type() != Type::Message {
        return None;
    }
    let name = field.type_name();
    let is_map = message.nested_type.iter().any(|entry| name.ends_with(&format!(".{}", entry.name())));
    let schema =
        if is_map { "LEAF".to_owned() } else { format!("<{} as HasSchema>::SCHEMA", rust_path(name)) };
    Some(format!("({}, {schema})", field.number()))
}

/// `.tenure.v1.Task` is `crate::proto::tenure::v1::Task`.
fn rust_path(name: &str) -> String {
    let name = name.trim_start_matches('.').replace('.', "::");
    format!("crate::proto::{name}")
}
