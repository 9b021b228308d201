//! Replies of the key space in this door's form.

use tenure_hub::keyspace::Reply as KeyReply;

use crate::codec::{Reply, Version};

pub(crate) fn key_replies(replies: Vec<KeyReply>, version: Version) -> Vec<Reply> {
    replies.into_iter().map(|reply| key_reply(reply, version)).collect()
}

pub(crate) fn key_reply(reply: KeyReply, version: Version) -> Reply {
    match reply {
        KeyReply::Ok => Reply::OK,
        KeyReply::Simple(text) => Reply::simple(text),
        KeyReply::Integer(number) => Reply::Integer(number),
        KeyReply::Bulk(bytes) => Reply::Bulk(bytes),
        KeyReply::Double(number) => Reply::Double(number),
        KeyReply::Null => Reply::Null,
        KeyReply::NullArray => Reply::NullArray,
        KeyReply::Array(items) => Reply::Array(key_replies(items, version)),
        KeyReply::Map(pairs) => {
            Reply::Map(pairs.into_iter().map(|(key, value)| (Reply::Bulk(key), Reply::Bulk(value))).collect())
        }
        KeyReply::Set(members) => Reply::Set(members.into_iter().map(Reply::Bulk).collect()),
        KeyReply::Scored(members) => match version {
            // RESP3 has pairs where RESP2 has one row.
            Version::Resp3 => Reply::array(
                members
                    .into_iter()
                    .map(|(member, score)| Reply::array([Reply::Bulk(member), Reply::Double(score)])),
            ),
            Version::Resp2 => Reply::array(
                members.into_iter().flat_map(|(member, score)| [Reply::Bulk(member), Reply::Double(score)]),
            ),
        },
        KeyReply::Streams(streams) => {
            let entries = |entries| Reply::Array(key_replies(entries, version));
            match version {
                Version::Resp3 => Reply::Map(
                    streams.into_iter().map(|(key, found)| (Reply::Bulk(key), entries(found))).collect(),
                ),
                Version::Resp2 => Reply::array(
                    streams.into_iter().map(|(key, found)| Reply::array([Reply::Bulk(key), entries(found)])),
                ),
            }
        }
        KeyReply::Refused(refusal) => Reply::error(refusal.to_string()),
    }
}
