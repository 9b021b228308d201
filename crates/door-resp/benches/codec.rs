//! Prints nanoseconds per command: decoding alone, with parsing, and encoding a reply.

use std::hint::black_box;
use std::time::Instant;

use bytes::BytesMut;
use tenure_door_resp::testing::{Decoder, Reply, RespLimits, Version, encode, understand};

const ROUNDS: usize = 500;
const PIPELINE: usize = 64;

fn main() {
    let push = b"*3\r\n$5\r\nLPUSH\r\n$12\r\nqueue:images\r\n$11\r\nhello world\r\n".repeat(PIPELINE);
    let pop = b"*3\r\n$5\r\nBRPOP\r\n$11\r\nqueue:ready\r\n$1\r\n5\r\n".repeat(PIPELINE);
    let ping = b"PING\r\n".repeat(PIPELINE);
    for (name, stream) in [("LPUSH, three arguments", &push), ("BRPOP", &pop), ("inline PING", &ping)] {
        measure(&format!("decode         {name}"), ROUNDS * PIPELINE, || decode(stream, false));
        measure(&format!("decode + parse {name}"), ROUNDS * PIPELINE, || decode(stream, true));
    }

    let mut long = b"*100000\r\n".to_vec();
    long.extend_from_slice(&b"$3\r\nabc\r\n".repeat(100_000));
    let start = Instant::now();
    let mut decoder = Decoder::new(RespLimits::trusted());
    let mut commands = 0;
    for part in long.chunks(4096) {
        decoder.feed(part);
        commands += usize::from(decoder.next_request().expect("well formed").is_some());
    }
    assert_eq!(commands, 1);
    println!("100,000 arguments in 4 KiB reads: {:.1} ms", start.elapsed().as_secs_f64() * 1000.0);

    let reply = Reply::array([Reply::word("queue:ready"), Reply::word("hello world"), Reply::Integer(7)]);
    measure("encode an array of three", ROUNDS * PIPELINE, || {
        let mut out = BytesMut::with_capacity(PIPELINE * 64);
        for _ in 0..ROUNDS {
            out.clear();
            for _ in 0..PIPELINE {
                encode(black_box(&reply), Version::Resp3, &mut out);
            }
        }
        black_box(&out);
    });
}

fn decode(stream: &[u8], parse: bool) {
    let mut decoder = Decoder::new(RespLimits::trusted());
    for _ in 0..ROUNDS {
        decoder.feed(stream);
        while let Some(request) = decoder.next_request().expect("well formed") {
            if parse {
                understand(black_box(&request)).expect("a command");
            } else {
                black_box(request.argument_count());
            }
        }
    }
}

/// The best of several runs: what else happens on the machine only ever makes a run slower.
fn measure(name: &str, commands: usize, run: impl Fn()) {
    const RUNS: usize = 7;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_nanos() as f64 / commands as f64);
    }
    println!("{name}: {best:.0} ns");
}
