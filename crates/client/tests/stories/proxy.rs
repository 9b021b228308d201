//! A way to the broker that can be cut, so that a connection breaks while the broker lives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    target: String,
    accepting: Option<JoinHandle<()>>,
    ways: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Proxy {
    pub(crate) async fn to(target: String) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut proxy = Proxy { address, target, accepting: None, ways: Arc::default() };
        proxy.accept(listener);
        proxy
    }

    fn accept(&mut self, listener: TcpListener) {
        let (ways, target) = (Arc::clone(&self.ways), self.target.clone());
        self.accepting = Some(tokio::spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let target = target.clone();
                let way = tokio::spawn(async move {
                    if let Ok(mut there) = TcpStream::connect(&target).await {
                        let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
                    }
                });
                ways.lock().unwrap().push(way.abort_handle());
            }
        }));
    }

    /// Breaks every connection and takes no new one.
    pub(crate) async fn cut(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
            let _ = accepting.await;
        }
        self.ways.lock().unwrap().drain(..).for_each(|way| way.abort());
    }

    pub(crate) async fn mend(&mut self) {
        self.accept(TcpListener::bind(self.address).await.unwrap());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        self.ways.lock().unwrap().drain(..).for_each(|way| way.abort());
    }
}
