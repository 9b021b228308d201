//! TLS at every door that speaks it, with and without certificates of clients.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tenure_wire::VERSION;

use crate::peers::{ALL_DOORS, address, frame};
use crate::support::{Broker, TIMEOUT};

/// A certificate that is its own authority, and its key.
struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn new() -> Pair {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn write(&self, directory: &Path, name: &str) -> [String; 2] {
        [("cert", &self.certificate), ("key", &self.key)].map(|(kind, text)| {
            let path = directory.join(format!("{name}-{kind}.pem"));
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        })
    }
}

/// A door that speaks TLS.
struct Door {
    name: &'static str,
    /// What a client says first.
    said: Vec<u8>,
    /// What the answer contains.
    wanted: &'static [u8],
    /// The protocol that the client names inside TLS.
    protocol: Option<&'static [u8]>,
}

fn doors() -> [Door; 4] {
    let hello = frame(&format!(r#"[1, "hello", {{"version": {VERSION}}}]"#)).to_vec();
    let http2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let http = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
    [
        Door { name: "native", said: hello, wanted: b"welcome", protocol: None },
        Door { name: "resp", said: b"PING\r\n".to_vec(), wanted: b"+PONG", protocol: None },
        // The broker's settings are an HTTP/2 frame of kind 4 on stream 0.
        Door { name: "grpc", said: http2, wanted: &[4, 0, 0, 0, 0, 0], protocol: Some(b"h2") },
        Door { name: "http", said: http, wanted: b"HTTP/1.1 200", protocol: None },
    ]
}

/// Says something and reads until the answer is there or the broker has closed the connection.
fn hears(stream: &mut (impl io::Read + io::Write), said: &[u8], wanted: &[u8]) -> bool {
    let _ = stream.write_all(said);
    let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
    while !heard.windows(wanted.len()).any(|part| part == wanted) {
        match stream.read(&mut piece) {
            Ok(count @ 1..) => heard.extend_from_slice(&piece[..count]),
            Ok(0) => return false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("neither answer nor end"),
            Err(_) => return false,
        }
    }
    true
}

fn connect(broker: &Broker, door: &str) -> TcpStream {
    let stream = TcpStream::connect(address(broker, door)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn secure(
    stream: TcpStream,
    server: &Pair,
    client: Option<&Pair>,
    protocol: Option<&[u8]>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let certificate = |pair: &Pair| CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(server)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate(pair)], key).unwrap()
        }
    };
    config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

#[test]
fn every_tcp_door_speaks_tls_and_asks_for_certificates_of_clients_only_if_configured() {
    let directory = tempfile::tempdir().unwrap();
    let [server, client, stranger] = [Pair::new(), Pair::new(), Pair::new()];
    let [server_cert, server_key] = server.write(directory.path(), "server");
    let [client_ca, _] = client.write(directory.path(), "client");
    let tls = ["--tls-cert", &server_cert, "--tls-key", &server_key];

    let open = Broker::start_in(&directory.path().join("open"), &[&ALL_DOORS[..], &tls].concat());
    let strict = [&ALL_DOORS[..], &tls, &["--tls-client-ca", &client_ca]].concat();
    let closed = Broker::start_in(&directory.path().join("closed"), &strict);
    for Door { name: door, said, wanted, protocol } in doors() {
        let with = |broker: &Broker, pair: Option<&Pair>| {
            hears(&mut secure(connect(broker, door), &server, pair, protocol), &said, wanted)
        };
        assert!(with(&open, None), "{door}: TLS without a certificate of the client");
        assert!(with(&closed, Some(&client)), "{door}: with the certificate that is asked for");
        assert!(!with(&closed, None), "{door}: without the certificate that is asked for");
        assert!(!with(&closed, Some(&stranger)), "{door}: with a certificate of another authority");
        assert!(!hears(&mut connect(&open, door), &said, wanted), "{door}: without TLS");
    }
}
