//! A peer has one deadline for its TLS handshake and its login, over real sockets.

use std::sync::Arc;
use std::time::Duration;

use tenure_door_kit::{Door, DoorListener, DoorSettings, DoorStream, Tls};
use tenure_hub::store::{MemoryDisk, StoreSettings};
use tenure_hub::{Counters, Hub, Keys};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const LOGIN_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_handshake_takes_its_time_from_the_login() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let tls = Tls::new(certificate.as_bytes(), key.as_bytes(), None).unwrap();
    let settings = DoorSettings { login_within: LOGIN_WITHIN, tls: Some(tls), ..DoorSettings::default() };
    let disk = Arc::new(MemoryDisk::new());
    let hub = Hub::start(disk, StoreSettings::default(), Default::default(), Keys::default()).unwrap();
    let counters = Arc::new(Counters::new("test"));
    let door = Arc::new(Door::new("test", hub.handle().clone(), settings, Arc::clone(&counters)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (deadlines, mut served) = mpsc::unbounded_channel();
    let serve = move |_: DoorStream, _, login_by: Instant| {
        let _ = deadlines.send(login_by);
        std::future::ready(())
    };
    tokio::spawn(async move { door.accept(DoorListener::Tcp(listener), serve).await });

    let stream = TcpStream::connect(address).await.unwrap();
    while counters.connections().accepted == 0 {
        yield_now().await;
    }
    let handshake_begins = Instant::now();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(client));
    let _secured = connector.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let login_by = timeout(LOGIN_WITHIN, served.recv()).await.unwrap().unwrap();
    assert!(login_by <= handshake_begins + LOGIN_WITHIN, "the time runs since the connection");
}
