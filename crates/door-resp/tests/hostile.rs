//! Input that has broken other servers, kept as a corpus, and many mutations of it.

use tenure_door_resp::testing::{Decoder, RespLimits, fuzz};

/// Each begins with the byte that chooses the piece size.
const CORPUS: &[&[u8]] = &[
    b"",
    b"\x01",
    b"\x01*1\r\n$4\r\nPING\r\n",
    b"\x07*3\r\n$5\r\nLPUSH\r\n$11\r\nqueue:ready\r\n$5\r\nhello\r\n",
    b"\x03PING\r\nPING\nECHO \"a\\x00b\"\r\n",
    b"\x05*-1\r\n*0\r\n\r\n\n",
    b"\x02*2147483647\r\n",
    b"\x02*9223372036854775807\r\n",
    b"\x02*-9223372036854775808\r\n",
    b"\x02*99999999999999999999999\r\n",
    b"\x02*1\r\n$9223372036854775807\r\n",
    b"\x02*1\r\n$-1\r\n",
    b"\x02*1\r\n$2147483647\r\nx",
    b"\x02*1\r\n$4\r\nPINGPING",
    b"\x02*1\r\n$4\rPING",
    b"\x02*1\r*1\r",
    b"\x09*1\r\n*1\r\n*1\r\n*1\r\n",
    b"\x09*1\r\n:1\r\n",
    b"\x09%1\r\n+a\r\n+b\r\n",
    b"\x10POST / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n",
    b"\x10GET / HTTP/1.1\r\nHost: 127.0.0.1:6380\r\n\r\n",
    b"\x04\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x04\x00\x00\x00\x00\n\x00\n",
    b"\x06ECHO \"unbalanced\r\n",
    b"\x06ECHO 'unbalanced\r\n",
    b"\x06ECHO \"a\"b\r\n",
    b"\x06ECHO \"\\x4\"\r\n",
    b"\x01*4\r\n$5\r\nXREAD\r\n$7\r\nSTREAMS\r\n$6\r\nevents\r\n$1\r\n0\r\n",
    b"\x20WORKER.REGISTER '{\"worker_id\":\"w\",\"hostname\":\"h\",\"agw_version\":\"1\",\"capabilities\":[]}'\r\n",
    b"\x20WORKER.HEARTBEAT w '{\"active_jobs\":1e999}'\r\n",
    b"\x20JOB.UPDATE j '{\"status\":\"completed\",\"task_results\":[{}]}'\r\n",
    b"\x20JOB.SUBMIT '{\"body\":\"x\",\"run_at\":\"9999-99-99T99:99:99Z\"}'\r\n",
    b"\x20PLAN.SUBMIT '{\"plan_id\":\"p\",\"tasks\":[{\"task_number\":1,\"command\":\"sort\",\"input_from_task\":1}]}'\r\n",
    b"\x20ACTION.SUBMIT '{\"plan_id\":\"p\",\"inputs\":[null]}'\r\n",
    b"\x20JOB.GET '[[[[[[[[[[[['\r\nBRPOP queue:ready nan\r\nBRPOP queue:ready inf\r\nBRPOP queue:ready -0\r\n",
    b"\x20SCAN -1\r\nSCAN 0 MATCH\r\nKEYS [\r\nXREAD BLOCK -1 STREAMS events $\r\n",
    b"\x20HELLO 3 AUTH a\r\nHELLO 99999999999999999999\r\nCLIENT\r\nCLIENT SETINFO lib-name \"a b\"\r\n",
    b"\x20\xff\xfe\r\n\"\\xff\" \"\\r\\n\"\r\n",
];

#[test]
fn the_corpus_is_answered_without_a_panic() {
    for input in CORPUS {
        fuzz(input);
    }
}

#[test]
fn so_are_many_mutations_of_it() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..20_000 {
        let mut input = CORPUS[round % CORPUS.len()].to_vec();
        for _ in 0..=random.below(4) {
            mutate(&mut input, &mut random);
        }
        fuzz(&input);
    }
}

#[test]
fn a_megabyte_of_open_arrays_takes_no_memory_and_no_stack() {
    let mut decoder = Decoder::new(RespLimits::trusted());
    decoder.feed(&b"*1\r\n".repeat(1 << 18));
    assert!(decoder.next_request().is_err());
    assert_eq!(decoder.pending_bytes(), 0);
}

#[test]
fn the_buffer_never_holds_more_than_one_message_and_one_read() {
    const READ: usize = 4096;
    let limits = RespLimits::trusted_with(64 * 1024);
    let mut decoder = Decoder::new(limits);
    decoder.feed(b"*100000\r\n");
    loop {
        decoder.feed(&b"$3\r\nabc\r\n".repeat(READ / 9));
        match decoder.next_request() {
            Ok(request) => assert!(request.is_none()),
            Err(_) => break,
        }
        assert!(decoder.pending_bytes() <= limits.message_bytes + READ);
    }
}

fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    if input.is_empty() {
        input.push(1);
    }
    let at = random.below(input.len());
    match random.below(6) {
        0 => input[at] = random.byte(),
        1 => input.insert(at, random.byte()),
        2 => {
            input.remove(at);
        }
        3 => input.truncate(at),
        4 => {
            let copy = input[at..].to_vec();
            input.extend(copy);
        }
        _ => {
            let other = CORPUS[random.below(CORPUS.len())];
            input.extend_from_slice(other);
        }
    }
}

/// Xorshift: the same mutations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits") % limit
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[5]
    }
}
