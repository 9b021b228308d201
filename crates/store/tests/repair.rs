//! Whatever happens to the files, a repair ends without a panic, the store opens afterwards, and a second repair has nothing
//! left to do.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use support::lived::{copy, lived};
use support::{Broker, NOW, few_ended};
use tenure_store::{Disk, MemoryDisk, Repair, repair, verify};

/// The files of a broker with a history, and a topic log that is none.
fn files() -> MemoryDisk {
    let files = copy(&lived().disk);
    files.put("topics-00000000000000000000", b"not a topic log");
    files
}

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

/// Does one thing to one file, and says what.
fn damage(disk: &MemoryDisk, dice: &mut Dice) -> String {
    let names = disk.list().unwrap();
    let name = names[dice.below(names.len())].clone();
    let mut bytes = disk.content(&name).unwrap();
    let at = dice.below(bytes.len());
    match dice.below(9) {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << dice.below(8);
            }
            disk.put(&name, &bytes);
            format!("flip a bit of {name} at {at}")
        }
        1 => {
            bytes.truncate(at);
            disk.put(&name, &bytes);
            format!("cut {name} at {at}")
        }
        2 => {
            let end = (at + 1 + dice.below(300)).min(bytes.len());
            bytes[at..end].fill(0);
            disk.put(&name, &bytes);
            format!("zeros in {name} from {at} to {end}")
        }
        3 => {
            disk.remove(&name).unwrap();
            format!("remove {name}")
        }
        4 => {
            let other = names[dice.below(names.len())].clone();
            let others = disk.content(&other).unwrap();
            disk.put(&name, &others);
            disk.put(&other, &bytes);
            format!("swap {name} and {other}")
        }
        5 => {
            bytes.extend((0..dice.below(200)).map(|number| number as u8));
            disk.put(&name, &bytes);
            format!("lengthen {name}")
        }
        6 => {
            let (kind, digits) = name.split_once('-').unwrap_or((&name, "0"));
            let number: u64 = digits.parse().unwrap_or(0);
            let near = format!("{kind}-{:020}", number.saturating_sub(40) + dice.below(80) as u64);
            disk.put(&near, &bytes);
            disk.remove(&name).unwrap();
            if near == name {
                disk.put(&near, &bytes);
            }
            format!("rename {name} to {near}")
        }
        7 => {
            let end = (at + dice.below(200)).min(bytes.len());
            bytes.drain(at..end);
            disk.put(&name, &bytes);
            format!("take bytes {at} to {end} out of {name}")
        }
        _ => {
            bytes.truncate(dice.below(60));
            disk.put(&name, &bytes);
            format!("leave {} bytes of {name}", bytes.len())
        }
    }
}

#[test]
fn no_damage_makes_a_repair_panic_and_every_repaired_store_opens() {
    let whole = files();
    let mut failed = Vec::new();
    for seed in 0..600 {
        let mut dice = Dice(seed);
        let damaged = copy(&whole);
        let what: Vec<String> = (0..=dice.below(3)).map(|_| damage(&damaged, &mut dice)).collect();
        for how in [Repair::Cut, Repair::Skip] {
            let disk = copy(&damaged);
            let outcome = catch_unwind(AssertUnwindSafe(|| check_repair(&disk, how)));
            let wrong = match outcome {
                Ok(Ok(())) => continue,
                Ok(Err(wrong)) => wrong,
                Err(panic) => format!("panic: {:?}", panic.downcast_ref::<String>()),
            };
            failed.push(format!("seed {seed} {how:?} after {what:?}: {wrong}"));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failed, such as\n{}",
        failed.len(),
        failed[..failed.len().min(12)].join("\n")
    );
}

fn check_repair(disk: &MemoryDisk, how: Repair) -> Result<(), String> {
    let before: Vec<Vec<u8>> = disk.list().unwrap().iter().filter_map(|name| disk.content(name)).collect();
    let first = repair(disk, how).map_err(|error| format!("the repair fails: {error}"))?;
    if first.done.is_empty() {
        let after: Vec<Vec<u8>> = disk.list().unwrap().iter().filter_map(|name| disk.content(name)).collect();
        if before != after {
            return Err("files were changed without a word".to_owned());
        }
    }
    let again = repair(disk, how).map_err(|error| format!("the second repair fails: {error}"))?;
    if !again.done.is_empty() {
        return Err(format!("again {:?} after {:?}", again.done, first.done));
    }
    verify(disk, few_ended(), NOW).map_err(|error| format!("it cannot be verified: {error}"))?;
    let mut broker = Broker::open(disk).map_err(|error| format!("{:?}, and then {error}", first.done))?;
    broker.parts.reader.open_topics(Default::default()).map_err(|error| format!("topics: {error}"))?;
    broker.submit(b"life goes on");
    broker.commit().map_err(|error| error.to_string())?;
    Ok(())
}
