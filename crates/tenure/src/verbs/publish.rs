//! `tenure pub`: publishes messages to topics.

mod incoming;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use tenure_client::{Client, NewMessage, Published};

use super::connect::code_of;
use super::input::{read_file, read_stdin};
use crate::exit::{Failure, OK, Outcome};
use crate::output::paint::escape_line;
use crate::output::{Screen, json, remark};
use crate::units::{counted, parse_duration};
use incoming::Incoming;

/// Messages that go to the broker in one request.
const CHUNK: usize = 1_000;

/// Publish messages to a topic
#[derive(Args, Debug)]
#[command(after_help = "\
A topic is a name with dots, such as sensor.kitchen.temp. It need not be created. Every current subscriber
gets the message; with --retain, later subscribers get it as the last known value.

Examples:
  tenure pub sensor.kitchen 21.5
  tenure pub state.door open --retain         the value for later subscribers
  tenure pub state.door '' --retain           clears it
  df -h | tenure pub report.disk -            the payload from stdin
  tenure pub load.test hello --count 100000   many of the same
  tenure pub --jsonl messages.jsonl           one JSON object per line:
      {\"topic\": \"sensor.hall\", \"payload\": \"18\", \"retain\": true, \"ttl\": \"30s\"}
  tenure pub time.now '?' --request           asks, and prints the first answer")]
pub(crate) struct Pub {
    /// Topic; with --jsonl, the default for lines without one
    #[arg(value_name = "TOPIC", required_unless_present = "jsonl")]
    topic: Option<String>,
    /// Payload; - reads stdin
    #[arg(value_name = "BODY", conflicts_with_all = ["file", "jsonl"])]
    body: Option<String>,
    /// Read the payload from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "jsonl")]
    file: Option<PathBuf>,
    /// Publish many messages: one JSON object per line; - reads stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["count", "request"])]
    jsonl: Option<PathBuf>,
    /// Retain the message as the topic's last value; an empty payload clears it
    #[arg(short, long)]
    retain: bool,
    /// Time to live of the message
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Content type of the payload
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Correlation id
    #[arg(long, value_name = "TEXT")]
    correlation: Option<String>,
    /// Publish the message this many times
    #[arg(short = 'n', long, value_name = "COUNT", conflicts_with = "request")]
    count: Option<u64>,
    /// Wait for the first answer and print it
    #[arg(long, conflicts_with_all = ["retain", "ttl"])]
    request: bool,
    /// With --request: how long to wait
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "5s")]
    timeout: Duration,
}

impl Pub {
    pub(crate) async fn run(&self, client: &Client, screen: &Screen) -> Outcome {
        if let Some(file) = &self.jsonl {
            return self.lines(client, file, screen).await;
        }
        let topic = self.topic.as_deref().unwrap_or_default();
        let payload = self.payload()?;
        if self.request {
            let answer = client.request(topic, payload, self.timeout).await?;
            let text = || String::from_utf8_lossy(&answer.payload).into_owned();
            screen.one(text, || {
                let mut value = json::payload(&answer.payload);
                value["source"] = answer.source.as_deref().into();
                value
            })?;
            return Ok(OK);
        }
        let message = self.message(topic, payload);
        match self.count {
            None => {
                let published = client.publish_message(message).await?;
                screen.one(|| describe(&published), || shape(topic, &published))?;
                Ok(OK)
            }
            Some(count) => self.many(client, &message, count, screen).await,
        }
    }

    fn message(&self, topic: &str, payload: Bytes) -> NewMessage {
        NewMessage {
            retain: self.retain,
            ttl_ms: self.ttl.map(|ttl| ttl.as_millis() as u64),
            content_type: self.content_type.as_deref().map(Into::into),
            correlation: self.correlation.as_deref().map(Into::into),
            ..NewMessage::new(topic, payload)
        }
    }

    async fn many(&self, client: &Client, message: &NewMessage, count: u64, screen: &Screen) -> Outcome {
        let (mut left, mut confirmed, mut deliveries, mut first, mut last) = (count, 0, 0, None, 0);
        while left > 0 {
            let chunk = left.min(CHUNK as u64);
            let asked = client.publish_many(vec![message.clone(); chunk as usize]).await;
            for published in asked.map_err(|error| cut_off(error, confirmed, count))? {
                let published = published.map_err(|refusal| cut_off(refusal.into(), confirmed, count))?;
                confirmed += 1;
                first.get_or_insert(published.sequence);
                last = published.sequence;
                deliveries += u64::from(published.receivers);
            }
            left -= chunk;
        }
        let first = first.unwrap_or(0);
        let text = || {
            let messages = counted(count, "message", "messages");
            format!("{messages} published, numbers {first} to {last}, {deliveries} deliveries")
        };
        screen.one(
            text,
            || json!({ "topic": &*message.topic, "messages": count, "first": first, "last": last, "deliveries": deliveries }),
        )?;
        Ok(OK)
    }

    async fn lines(&self, client: &Client, file: &Path, screen: &Screen) -> Outcome {
        let name = file.display().to_string();
        let mut incoming = Incoming::open(file)?;
        let (mut code, mut refused, mut published_count) = (OK, 0_u64, 0_u64);
        loop {
            let (mut chunk, mut numbers, mut bad) = (Vec::new(), Vec::new(), None);
            for (number, line) in incoming.next(CHUNK).await {
                let line = line.map_err(|error| format!("cannot be read: {error}"));
                match line.and_then(|line| self.line(&line)) {
                    Ok(message) => {
                        chunk.push(message);
                        numbers.push(number);
                    }
                    Err(why) => {
                        // Those before it are published first.
                        bad = Some((number, why));
                        break;
                    }
                }
            }
            if chunk.is_empty() && bad.is_none() {
                break;
            }
            let asked = if chunk.is_empty() { Ok(Vec::new()) } else { client.publish_many(chunk).await };
            let answers = asked.map_err(|error| {
                let mut failure = Failure::from(error);
                let first = numbers.first().copied().unwrap_or_default();
                let confirmed = counted(published_count, "message was", "messages were");
                failure.message +=
                    &format!("; {confirmed} confirmed, all from before line {first} of {name}");
                failure
            })?;
            for (published, number) in answers.into_iter().zip(numbers) {
                match published {
                    Ok(_) => published_count += 1,
                    Err(refusal) => {
                        refused += 1;
                        code = code_of(&refusal.code);
                        remark(format!(
                            "line {number} of {name} is refused: {}",
                            escape_line(&refusal.message)
                        ));
                    }
                }
            }
            if let Some((number, why)) = bad {
                let published = counted(published_count, "message before it was", "messages before it were");
                return Err(Failure::input(format!("line {number} of {name}: {why}; {published} published")));
            }
        }
        let text = || {
            let messages = counted(published_count, "message", "messages");
            if refused == 0 {
                format!("{messages} published")
            } else {
                format!("{messages} published, {refused} refused")
            }
        };
        screen.one(text, || json!({ "published": published_count, "refused": refused }))?;
        Ok(code)
    }

    fn line(&self, line: &str) -> Result<NewMessage, String> {
        let Value::Object(fields) =
            serde_json::from_str(line).map_err(|error| format!("this is not JSON ({error})"))?
        else {
            return Err("a JSON object is needed".to_owned());
        };
        let mut message = self.message(self.topic.as_deref().unwrap_or_default(), Bytes::new());
        for (field, value) in &fields {
            let text = || value.as_str().ok_or_else(|| format!("`{field}` is not a text"));
            match field.as_str() {
                "topic" => message.topic = text()?.into(),
                "payload" => {
                    message.payload = value.as_str().map_or_else(|| value.to_string(), str::to_owned).into();
                }
                "retain" => {
                    message.retain = value.as_bool().ok_or("`retain` is neither true nor false")?;
                }
                "ttl" => message.ttl_ms = Some(parse_duration(text()?)?.as_millis() as u64),
                "content_type" => message.content_type = Some(text()?.into()),
                "correlation" => message.correlation = Some(text()?.into()),
                other => {
                    return Err(format!(
                        "`{other}` is none of topic, payload, retain, ttl, content_type and correlation"
                    ));
                }
            }
        }
        if message.topic.is_empty() {
            return Err("there is no topic: name one in the line, or once before --jsonl".to_owned());
        }
        Ok(message)
    }

    fn payload(&self) -> Result<Bytes, Failure> {
        match (&self.file, self.body.as_deref()) {
            (Some(file), _) => read_file(file),
            (None, Some("-")) => read_stdin(),
            (None, Some(text)) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            (None, None) => {
                Err(Failure::usage("nothing to publish: give a payload, --file, or - to read it from stdin"))
            }
        }
    }
}

/// Publishing many has ended early: how many are certain, because the rest may have been published or not.
fn cut_off(error: tenure_client::Error, confirmed: u64, count: u64) -> Failure {
    let mut failure = Failure::from(error);
    failure.message += &format!("; {confirmed} of {count} messages were confirmed before that");
    failure
}

fn describe(published: &Published) -> String {
    let receivers = match published.receivers {
        0 => "no subscribers".to_owned(),
        count => counted(u64::from(count), "subscriber", "subscribers"),
    };
    let mut text = format!("number {}, {receivers}", published.sequence);
    if published.dropped > 0 {
        text += &format!(", {} of them had to drop something", published.dropped);
    }
    text
}

fn shape(topic: &str, published: &Published) -> Value {
    json!({
        "topic": topic,
        "sequence": published.sequence,
        "id": published.id.map(|id| id.to_string()),
        "receivers": published.receivers,
        "dropped": published.dropped,
        "blocked": published.blocked,
    })
}
