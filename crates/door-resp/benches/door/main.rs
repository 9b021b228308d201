//! Prints how fast the door is over sockets, beside a Redis server that syncs its log before it answers: durable pushes,
//! whole cycles, what thousands of clients that wait cost, and how long looks at a million jobs keep others waiting.
//!
//! Every server is a process of its own, so that its CPU time is separate from that of the clients. The two take turns,
//! because a figure alone says more about the machine than about the server. Name the parts to run: `load`, `crowd`,
//! `backlog`; without a name all of them run.

mod backlog;
mod crowd;
mod cycles;
mod load;
mod peer;
mod server;

use server::{Kind, Server};

/// As in the broker's own program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.enable_all();
    if arguments.first().is_some_and(|word| word == "serve") {
        let directory = arguments.pop().expect("a directory");
        let runtime = runtime.worker_threads(tenure_hub::Hub::threads()).build().expect("a runtime");
        return runtime.block_on(server::serve(directory.as_ref()));
    }
    let runtime = runtime.build().expect("a runtime");
    let wants = |part: &str| arguments.is_empty() || arguments.iter().any(|word| word == part);
    runtime.block_on(async {
        if wants("load") {
            load::run().await;
        }
        if wants("crowd") {
            crowd::run(&Server::start(Kind::Tenure).await).await;
        }
        if wants("backlog") {
            backlog::run(&Server::start(Kind::Tenure).await).await;
        }
    });
}
