//! What reaches a terminal: bytes of tasks are shown escaped there, and pass unchanged everywhere else.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::support::{Broker, run};

/// Clears the screen, sets the window's title, turns the direction of writing round.
const EVIL: &str = "a\x1b[2J\x1b]0;owned\x07b\u{202e}c\u{9b}31m";

/// Runs a command whose stdout and stderr are a terminal, and returns what the terminal got.
fn on_a_terminal(command: Command) -> String {
    on_a_terminal_of(100, command)
}

/// The same, with this many columns.
pub(crate) fn on_a_terminal_of(columns: u16, mut command: Command) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("a terminal of one's own");
    unlockpt(&terminal).expect("an open terminal");
    let size = Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).expect("a size");
    let name = ptsname(&terminal, Vec::new()).expect("its name");
    let side = || {
        let file = File::options().read(true).write(true).open(name.to_str().expect("text"));
        Stdio::from(OwnedFd::from(file.expect("the other side")))
    };
    let mut child = command.stdout(side()).stderr(side()).spawn().expect("the program starts");
    // Holds the sides that were made for it.
    drop(command);
    let mut shown = Vec::new();
    let mut terminal = File::from(terminal);
    let mut piece = [0; 4096];
    // A terminal whose other end is closed answers with an error.
    while let Ok(count @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..count]);
    }
    child.wait().expect("it ends");
    String::from_utf8_lossy(&shown).into_owned()
}

#[test]
fn escape_sequences_of_a_task_do_not_reach_the_terminal() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let task = broker.submit(&["-q", "q", EVIL]);
    broker.tenure(&["wait", &task]).ok();
    for args in [
        &["wait", &task][..],
        &["logs", &task],
        &["show", "--result", &task],
        &["show", "--body", &task],
        &["wait", &task, "-o", "json"],
        &["logs", &task, "-o", "jsonl"],
        &["--no-color", "submit", "-q", "q", "--wait", EVIL],
    ] {
        let shown = on_a_terminal(broker.command(args));
        assert!(shown.contains('a') && shown.contains("1b"), "{args:?}: {shown:?}");
        for harmful in ['\x1b', '\x07', '\u{202e}', '\u{9b}'] {
            assert!(!shown.contains(harmful), "{args:?}: {shown:?}");
        }
    }
}

#[test]
fn what_is_piped_stays_as_it_is() {
    let broker = Broker::start();
    let _worker = broker.worker("w1", "q");
    let task = broker.submit(&["-q", "q", EVIL]);
    let result = format!("did {EVIL}");
    assert_eq!(broker.tenure(&["wait", &task]).ok(), result);
    assert_eq!(broker.tenure(&["logs", &task]).ok(), result);
    assert_eq!(broker.tenure(&["show", "--result", &task]).ok(), result);
    assert_eq!(broker.tenure(&["show", "--body", &task]).ok(), EVIL);
}

#[test]
fn names_with_invisible_characters_are_refused() {
    let broker = Broker::start();
    for hidden in ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{200b}', '\u{feff}'] {
        let name = format!("in{hidden}voices");
        let said = run(broker.command(&["submit", "-q", &name, "x"]));
        let err = said.fails(76, "bad-name");
        assert!(err.contains("invisible"), "{err}");
    }
    broker.tenure(&["submit", "-q", "données-漢字", "x"]).ok();
}
