//! The broker as a program of its own, killed with `kill -9` under grpcio workers, watchers and subscribers.

mod support;

use support::{python, succeeds};

#[tokio::test]
async fn after_kill_9_all_subscribers_resume() {
    let (Some(python), Some(binary)) = (python(), std::env::var_os("TENURE_BINARY")) else {
        eprintln!("TENURE_BINARY or TENURE_THIRD_PARTY_PYTHON is not set, so nothing is killed");
        return;
    };
    let data = tempfile::tempdir().expect("a directory");
    let binary = binary.to_str().expect("a path");
    succeeds(python, "kill9.py", &[binary, data.path().to_str().expect("a path")]).await;
}
