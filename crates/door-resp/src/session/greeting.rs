//! Login, and all commands about the connection itself.

use bytes::Bytes;
use tenure_hub::words::Name;
use tenure_hub::{ClockReading, Request};

use super::identity::PINGED_MAX;
use super::{MultiTransaction, RespAdmission, RespAuthenticator, Session, SessionOutput, about};
use crate::codec::{Reply, RespLimits, Version};
use crate::command::{ClientCommand, Command, ConnectionCommand, Credentials, Hello, LibraryFact};
use crate::flow::FlowStep;
use crate::json::check_worker_id;
use crate::rights::JobReader;
use crate::translate::{LastReply, pinged};

/// Whether a command is allowed before authentication.
pub(super) fn before_auth(command: &Command) -> bool {
    match command {
        Command::Connection(ConnectionCommand::Client(client)) => {
            matches!(client, ClientCommand::SetInfo { .. })
        }
        Command::Connection(
            ConnectionCommand::Hello(_)
            | ConnectionCommand::Auth(_)
            | ConnectionCommand::Quit
            | ConnectionCommand::Reset,
        ) => true,
        _ => false,
    }
}

impl Session {
    pub(super) fn connection(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        place: u64,
        command: ConnectionCommand,
        out: &mut SessionOutput,
    ) {
        let reply = match command {
            ConnectionCommand::Hello(hello) => self.hello(now, authenticator, hello, out),
            ConnectionCommand::Auth(credentials) => match self.auth(now, authenticator, &credentials, out) {
                Ok(()) => Reply::OK,
                Err(reply) => reply,
            },
            ConnectionCommand::Client(command) => self.client(command),
            ConnectionCommand::Select => Reply::OK,
            ConnectionCommand::Ping(message) => return self.ping(now, authenticator, place, message, out),
            ConnectionCommand::Echo(message) => Reply::Bulk(message),
            ConnectionCommand::Quit => {
                self.closing = true;
                Reply::OK
            }
            ConnectionCommand::Multi => self.transaction.multi(),
            ConnectionCommand::Discard => {
                self.unwatch_keys(out);
                self.transaction.discard()
            }
            ConnectionCommand::Exec => return self.exec(place, out),
            ConnectionCommand::Reset => {
                self.reset(authenticator, out);
                Reply::simple("RESET")
            }
            ConnectionCommand::Info(sections) => {
                let sections = match JobReader::of(self.identity.grant.as_deref()) {
                    JobReader::Everyone => sections,
                    JobReader::Holder => vec!["server".to_owned()],
                };
                let step = FlowStep::Last(Request::Stats, LastReply::Info { sections });
                return self.run(now, place, step, out);
            }
            ConnectionCommand::Command(query) => about::commands(&query),
            ConnectionCommand::Role => about::role(),
            ConnectionCommand::Time => {
                let millis = now.wall.millis();
                let micros = millis % 1000 * 1000;
                Reply::array([Reply::bulk((millis / 1000).to_string()), Reply::bulk(micros.to_string())])
            }
        };
        self.fill(place, reply);
    }

    fn hello(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        hello: Hello,
        out: &mut SessionOutput,
    ) -> Reply {
        if let Some(credentials) = &hello.auth
            && let Err(reply) = self.auth(now, authenticator, credentials, out)
        {
            return reply;
        }
        self.client.is_library = true;
        if let Some(version) = hello.version {
            self.version = version;
        }
        if hello.name.is_some() {
            self.client.name = hello.name;
        }
        about::hello(self.version, self.client.id)
    }

    fn auth(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        credentials: &Credentials,
        out: &mut SessionOutput,
    ) -> Result<(), Reply> {
        if !authenticator.wants_keys() {
            return Ok(());
        }
        match authenticator.admit(now, &credentials.key) {
            RespAdmission::Granted(grant) => {
                self.decoder.set_limits(self.settings.limits());
                // Another key is another peer: it must not receive what the previous one asked for.
                if self.identity.grant.as_ref().is_some_and(|before| before.key != grant.key) {
                    self.unsubscribe_all(out);
                }
                self.identity.set_grant(Some(grant));
                Ok(())
            }
            RespAdmission::Wrong => Err(Reply::error("ERR Invalid authentication key")),
        }
    }

    fn reset(&mut self, authenticator: &dyn RespAuthenticator, out: &mut SessionOutput) {
        self.unsubscribe_all(out);
        self.unwatch_keys(out);
        self.transaction = MultiTransaction::default();
        self.version = Version::Resp2;
        self.client.name = None;
        if authenticator.wants_keys() {
            self.decoder.set_limits(RespLimits::unauthenticated());
            self.identity.set_grant(None);
        }
    }

    fn client(&mut self, command: ClientCommand) -> Reply {
        self.client.is_library = true;
        match command {
            ClientCommand::SetInfo { fact, value } => {
                let place = match fact {
                    LibraryFact::Name => 0,
                    LibraryFact::Version => 1,
                };
                self.client.library[place] = Some(value);
                Reply::OK
            }
            ClientCommand::SetName(name) => {
                self.client.name = Some(name);
                Reply::OK
            }
            ClientCommand::GetName => self.client.name.clone().map_or(Reply::Null, Reply::bulk),
            ClientCommand::Id => Reply::Integer(i64::try_from(self.client.id).unwrap_or(i64::MAX)),
            ClientCommand::List | ClientCommand::Info => Reply::bulk(self.described()),
            ClientCommand::NoEvict | ClientCommand::NoTouch => Reply::OK,
        }
    }

    /// This connection in one line, as CLIENT LIST writes it.
    fn described(&self) -> String {
        let [library, version] = &self.client.library;
        format!(
            "id={} addr={} name={} db=0 sub={} psub={} resp={} lib-name={} lib-ver={} worker={}\n",
            self.client.id,
            self.client.address,
            self.client.name.as_deref().unwrap_or_default(),
            self.subscriptions.channels.len(),
            self.subscriptions.patterns.len(),
            self.version.number(),
            library.as_deref().unwrap_or_default(),
            version.as_deref().unwrap_or_default(),
            self.identity.worker.as_deref().unwrap_or_default(),
        )
    }

    /// A ping with a worker's id makes the worker known, counts as its heartbeat, and names the worker that may pop
    /// here.
    fn ping(
        &mut self,
        now: ClockReading,
        authenticator: &dyn RespAuthenticator,
        place: u64,
        message: Option<Bytes>,
        out: &mut SessionOutput,
    ) {
        let Some(message) = message else {
            let pong = if self.subscribed_old() {
                Reply::array([Reply::word("pong"), Reply::word("")])
            } else {
                Reply::simple("PONG")
            };
            return self.fill(place, pong);
        };
        if self.subscribed_old() {
            return self.fill(place, Reply::array([Reply::word("pong"), Reply::Bulk(message)]));
        }
        if !self.may_work() {
            return self.fill(place, Reply::Bulk(message));
        }
        let id = String::from_utf8_lossy(&message);
        if let Err(error) = check_worker_id(&id) {
            let what = "PING <worker id> is a heartbeat, PING alone answers PONG";
            return self.fill(place, Reply::error(format!("ERR invalid worker ID: {error}; {what}")));
        }
        match &*id {
            id if self.may_speak_as(authenticator, id) => {
                let name = Name::from(id);
                if !self.identity.pings_as(&name) {
                    let what = format!("ERR too many worker IDs on one connection, at most {PINGED_MAX}");
                    return self.fill(place, Reply::error(what));
                }
                self.identity.introduced = true;
                if self.identity.worker.is_none() {
                    self.identity.hinted = Some(name.clone());
                }
                self.run(now, place, pinged(name, Reply::Bulk(message)), out);
            }
            _ => self.fill(place, Reply::Bulk(message)),
        }
    }
}
