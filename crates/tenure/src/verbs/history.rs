//! Reads kept events up to the present. A watcher has no end; this one stops when it is live.

use std::ops::ControlFlow;

use tenure_client::wire::hello::{Hello, Key};
use tenure_client::wire::request::Watch;
use tenure_client::wire::{FromBroker, Notice, Reply, Request, VERSION};
use tenure_client::{Address, Client, Connection, Error, Event};

use crate::args::Global;
use crate::exit::Failure;

/// An item of a history.
#[derive(Debug)]
pub(crate) enum Past {
    Event(Event),
    /// These events are no longer kept.
    Gap {
        from: u64,
        to: u64,
    },
}

/// Reads what a watch brings, until it is live or enough was seen.
pub(crate) async fn read(
    global: &Global,
    watch: Watch,
    mut see: impl AsyncFnMut(Past) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut connection = open(global).await?;
    connection.ask(&Request::Watch(Box::new(watch)));
    let mut arrived = Vec::new();
    loop {
        connection.turn(&mut arrived).await?;
        for message in arrived.drain(..) {
            let past = match message {
                FromBroker::Reply { reply: Reply::Refused(refusal), .. } => {
                    return Err(Failure::from(&*refusal));
                }
                FromBroker::Notice(Notice::Events(events)) => {
                    events.events.into_iter().map(Past::Event).collect()
                }
                FromBroker::Notice(Notice::Gap(gap)) => vec![Past::Gap { from: gap.from, to: gap.to }],
                FromBroker::Notice(Notice::Live(_)) => return Ok(()),
                FromBroker::Notice(Notice::Bye(why)) => return Err(Failure::from(&*why)),
                _ => Vec::new(),
            };
            for past in past {
                if see(past).await?.is_break() {
                    return Ok(());
                }
            }
        }
    }
}

/// The number of the first kept event at or after a moment: the times of events increase with their numbers, so it
/// looks at a few of them only.
pub(crate) async fn number_at(global: &Global, client: &Client, since: u64) -> Result<u64, Failure> {
    let (mut low, mut high) = (1, client.counts().await?.last_event + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        let mut first = None;
        let watch = Watch { from: Some(middle), ..Watch::default() };
        let see = async |past| {
            let Past::Event(event) = past else { return Ok(ControlFlow::Continue(())) };
            first = Some(event);
            Ok(ControlFlow::Break(()))
        };
        read(global, watch, see).await?;
        match first {
            // Of a number that is no longer kept, the event that follows the gap is seen.
            Some(event) if event.at.0 < since => low = event.seq.max(middle) + 1,
            Some(_) => high = middle,
            None => return Ok(high),
        }
    }
    Ok(low)
}

/// The first address that answers.
async fn open(global: &Global) -> Result<Connection, Failure> {
    let hello = Hello {
        version: VERSION,
        namespace: global.namespace.as_deref().map(Into::into),
        key: global.key.as_ref().map(|key| Key::new(key.reveal())),
        software: Some(concat!("tenure ", env!("CARGO_PKG_VERSION")).into()),
        ..Hello::default()
    };
    let mut last: Option<Error> = None;
    for address in Address::parse_many(&global.broker)? {
        match Connection::open(&address, hello.clone()).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Failure::usage("no address of a broker was given"), Failure::from))
}
