//! Reads the kept events of one task up to the present. A watcher has no end; this one stops when it is live.

use tenure_client::wire::hello::{Hello, Key};
use tenure_client::wire::request::Watch;
use tenure_client::wire::{FromBroker, Notice, Reply, Request, VERSION};
use tenure_client::{Address, Connection, Error, Event, TaskId};

use crate::args::Global;
use crate::exit::Failure;

/// Receives the events in order.
pub(crate) trait Reading {
    fn event(&mut self, event: Event);
    /// Events before `oldest` are no longer kept.
    fn gap(&mut self, oldest: u64);
}

pub(crate) async fn of_task(global: &Global, task: TaskId, into: &mut impl Reading) -> Result<(), Failure> {
    let mut connection = open(global).await?;
    connection.ask(&Request::Watch(Box::new(Watch { from: Some(1), task: Some(task), ..Watch::default() })));
    let mut arrived = Vec::new();
    loop {
        connection.turn(&mut arrived).await?;
        for message in arrived.drain(..) {
            match message {
                FromBroker::Reply { reply: Reply::Refused(refusal), .. } => {
                    return Err(Failure::from(&*refusal));
                }
                FromBroker::Notice(Notice::Events(events)) => {
                    events.events.into_iter().for_each(|event| into.event(event));
                }
                FromBroker::Notice(Notice::Gap(gap)) => into.gap(gap.to + 1),
                FromBroker::Notice(Notice::Live(_)) => return Ok(()),
                FromBroker::Notice(Notice::Bye(why)) => return Err(Failure::from(&*why)),
                _ => {}
            }
        }
    }
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
