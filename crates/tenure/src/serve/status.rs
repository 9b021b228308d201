//! The answers of the HTTP door for a broker that has no hub: it recovers, it stands by, or it drains.

#[cfg(feature = "http")]
pub(crate) use with_http::{Answering, Status};
#[cfg(not(feature = "http"))]
pub(crate) use without_http::{Answering, Status};

#[cfg(feature = "http")]
mod with_http {
    use std::sync::Arc;

    use tenure_door_http::{BrokerStatus, Settings, StandbyStatus, StatusDoor};
    use tenure_door_kit::forward::StandbyDoor;
    use tenure_door_kit::{DoorListener, DoorSettings, duplicate_tcp};
    use tenure_hub::Keys;
    use tenure_store::Followed;
    use tokio::sync::watch;
    use tokio::task::JoinHandle;

    use crate::config::Config;
    use crate::exit::Failure;
    use crate::serve::doors::{self, BoundDoors};

    /// How the broker is.
    #[derive(Debug)]
    pub(crate) struct Status {
        now: watch::Sender<BrokerStatus>,
        keys: watch::Sender<Keys>,
    }

    /// A door that answers until it is stopped.
    pub(crate) struct Answering {
        stop: watch::Sender<bool>,
        running: JoinHandle<()>,
    }

    impl Status {
        pub(crate) fn recovering(config: &Config) -> Status {
            let keys = watch::channel(config.access.keys()).0;
            Status { now: watch::channel(BrokerStatus::Recovering).0, keys }
        }

        /// The configuration was read again.
        pub(crate) fn set_keys(&self, config: &Config) {
            self.keys.send_replace(config.access.keys());
        }

        /// Answers on the socket of the HTTP door, if it is open.
        pub(crate) fn answer(
            &self,
            config: &Config,
            bound: &BoundDoors,
        ) -> Result<Option<Answering>, Failure> {
            let http = bound.iter().find(|door| door.name == "http");
            let Some(DoorListener::Tcp(listener)) = http.map(|door| &door.listener) else { return Ok(None) };
            let listener = duplicate_tcp(listener)?;
            let door = self.of(config)?;
            let (stop, mut stopped) = watch::channel(false);
            let running = tokio::spawn(async move {
                let stopped = async {
                    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
                };
                door.run(listener, stopped).await;
            });
            Ok(Some(Answering { stop, running }))
        }

        /// Answers that the broker drains, from the moment that its hub takes no more requests. The door that serves
        /// leaves the socket then.
        pub(crate) fn answer_after(
            &self,
            config: &Config,
            bound: &BoundDoors,
            draining: impl Future<Output = ()> + Send + 'static,
        ) -> Result<Option<Answering>, Failure> {
            let http = bound.iter().find(|door| door.name == "http");
            let Some(DoorListener::Tcp(listener)) = http.map(|door| &door.listener) else { return Ok(None) };
            let listener = duplicate_tcp(listener)?;
            let door = self.of(config)?;
            let now = self.now.clone();
            let (stop, mut stopped) = watch::channel(false);
            let running = tokio::spawn(async move {
                let stopped = async {
                    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
                };
                let mut stopped = std::pin::pin!(stopped);
                tokio::select! {
                    () = draining => {}
                    () = &mut stopped => return,
                }
                now.send_replace(BrokerStatus::Draining);
                door.run(listener, stopped).await;
            });
            Ok(Some(Answering { stop, running }))
        }

        /// The door at which a standby answers itself.
        pub(crate) fn door(
            &self,
            config: &Config,
            name: &str,
        ) -> Result<Option<Arc<dyn StandbyDoor>>, Failure> {
            Ok(if name == "http" { Some(Arc::new(self.of(config)?)) } else { None })
        }

        fn of(&self, config: &Config) -> Result<StatusDoor, Failure> {
            let [tls, _] = doors::tls(config)?;
            let door = DoorSettings { tls, ..config.http.door.clone() };
            let settings = Settings { door, ..config.http.clone() };
            Ok(StatusDoor::new(self.now.subscribe(), &settings, self.keys.subscribe()))
        }

        /// The member has seen the group.
        pub(crate) fn follows(&self, config: &Config, followed: &Followed) {
            let Some(cluster) = &config.cluster else { return };
            let end = followed.state.streams.tasks.end.position;
            let status = BrokerStatus::Standby(StandbyStatus {
                group: cluster.group.clone(),
                name: cluster.name.clone(),
                leader: followed.state.holder.clone().filter(|_| !followed.state.lease_left.is_zero()),
                epoch: followed.state.epoch,
                position: followed.position,
                lag_bytes: end.saturating_sub(followed.position),
                is_cut_off: false,
            });
            self.now.send_replace(status);
        }

        /// The journal of the group does not answer.
        pub(crate) fn is_cut_off(&self, config: &Config) {
            let Some(cluster) = &config.cluster else { return };
            self.now.send_modify(|now| match now {
                BrokerStatus::Standby(standby) => standby.is_cut_off = true,
                BrokerStatus::Draining | BrokerStatus::Recovering => {
                    *now = BrokerStatus::Standby(StandbyStatus {
                        group: cluster.group.clone(),
                        name: cluster.name.clone(),
                        is_cut_off: true,
                        ..StandbyStatus::default()
                    });
                }
            });
        }
    }

    impl Answering {
        /// Leaves the socket to the door that serves.
        pub(crate) async fn stop(self) {
            let _ = self.stop.send(true);
            let _ = self.running.await;
        }
    }
}

#[cfg(not(feature = "http"))]
mod without_http {
    use std::sync::Arc;

    use tenure_door_kit::forward::StandbyDoor;
    use tenure_store::Followed;

    use crate::config::Config;
    use crate::exit::Failure;
    use crate::serve::doors::BoundDoors;

    /// No door says how the broker is.
    #[derive(Debug)]
    pub(crate) struct Status;

    pub(crate) struct Answering;

    impl Status {
        pub(crate) fn recovering(_: &Config) -> Status {
            Status
        }

        pub(crate) fn set_keys(&self, _: &Config) {}

        pub(crate) fn answer(&self, _: &Config, _: &BoundDoors) -> Result<Option<Answering>, Failure> {
            Ok(None)
        }

        pub(crate) fn answer_after(
            &self,
            _: &Config,
            _: &BoundDoors,
            _: impl Future<Output = ()> + Send + 'static,
        ) -> Result<Option<Answering>, Failure> {
            Ok(None)
        }

        pub(crate) fn door(&self, _: &Config, _: &str) -> Result<Option<Arc<dyn StandbyDoor>>, Failure> {
            Ok(None)
        }

        pub(crate) fn follows(&self, _: &Config, _: &Followed) {}

        pub(crate) fn is_cut_off(&self, _: &Config) {}
    }

    impl Answering {
        pub(crate) async fn stop(self) {}
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use tenure_door_kit::{DoorListener, DoorSettings};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    use super::Status;
    use crate::config::{Config, flags, load};
    use crate::serve::doors::{self, BoundDoors};

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("the socket is open");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is read");
        let mut answer = String::new();
        let reading = stream.read_to_string(&mut answer);
        tokio::time::timeout(Duration::from_secs(60), reading).await.expect("in time").expect("an answer");
        answer
    }

    #[tokio::test]
    async fn a_broker_that_drains_says_so_until_its_process_ends() {
        let mut given = BTreeMap::from([("http", "127.0.0.1:0".to_owned())]);
        for door in ["native", "xmessage", "resp", "mdp", "pingpong", "grpc"] {
            given.insert(door, "off".to_owned());
        }
        let flags = flags::Flags { given, ..flags::Flags::default() };
        let config = Config::build(&load::load(&flags, &|_| None, &[]).unwrap(), 0);
        let mut bound = BoundDoors::default();
        let opened = doors::open_with(&config, false, DoorSettings::default(), Some(&mut bound)).await;
        // The door that serves leaves its socket when the hub stops.
        drop(opened.unwrap_or_else(|error| panic!("{error}")));
        let http = bound.iter().find(|door| door.name == "http").expect("it is open");
        let DoorListener::Tcp(listener) = &http.listener else { panic!("it is TCP") };
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let draining = Status::recovering(&config)
            .answer_after(&config, &bound, async move {
                let _ = stopped.await;
            })
            .unwrap_or_else(|error| panic!("{error}"))
            .expect("there is an HTTP door");
        stop.send(()).expect("it listens");
        let ready = get(address, "/readyz").await;
        assert!(ready.starts_with("HTTP/1.1 503") && ready.contains("\"draining\""), "{ready}");
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/metrics").await.contains("tenure_draining 1"));
        let refused = get(address, "/v1/tasks").await;
        assert!(
            refused.starts_with("HTTP/1.1 503") && refused.contains("\"code\":\"draining\""),
            "{refused}"
        );
        draining.stop().await;
    }
}
