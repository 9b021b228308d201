//! Ends this process before its attempts can belong to another worker.
//!
//! A process that was stopped (SIGSTOP, a debugger, a frozen container) does not know how long, and its threads continue
//! all at once. No check inside the process is early enough, so the kernel does it: a timer that sends SIGKILL at the end
//! of the lease reaches a stopped process too. Each answered heartbeat moves the timer.

use std::time::Duration;

use crate::error::Error;

/// The clock that measures the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseClock {
    /// Stands still while the machine sleeps. For a broker that is known to be on the same machine, which sleeps too.
    Monotonic,
    /// Counts the time that the machine sleeps. For a broker that may be on another machine.
    Boottime,
}

impl LeaseClock {
    pub(crate) fn now(self) -> ClockTime {
        ClockTime(read(self))
    }
}

/// A time of the lease's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClockTime(Duration);

/// The process ends this part of the lease early: the clocks of two machines do not run at the same speed.
const MARGIN_PART: u32 = 20;
const MARGIN_MAX: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) struct LeaseGuard {
    timer: KillTimer,
    clock: LeaseClock,
    lease: Duration,
    /// When the last message that the broker has answered was sent. The broker received it later, so its lease ends later.
    confirmed: ClockTime,
    armed: Option<ClockTime>,
}

impl LeaseGuard {
    pub(crate) fn new(lease: Duration) -> Result<LeaseGuard, Error> {
        // Until the worker knows where the broker is.
        let clock = LeaseClock::Boottime;
        let timer = KillTimer::new(clock)?;
        let lease = lease - (lease / MARGIN_PART).min(MARGIN_MAX);
        Ok(LeaseGuard { timer, clock, lease, confirmed: clock.now(), armed: None })
    }

    pub(crate) fn now(&self) -> ClockTime {
        self.clock.now()
    }

    /// The broker cannot end the lease before its full length after this time.
    pub(crate) fn confirm(&mut self, sent: ClockTime) {
        self.confirmed = self.confirmed.max(sent);
    }

    /// Measures with another clock from now on.
    pub(crate) fn set_clock(&mut self, clock: LeaseClock) {
        if clock == self.clock {
            return;
        }
        let age = self.clock.now().0.saturating_sub(self.confirmed.0);
        let Ok(timer) = KillTimer::new(clock) else { self.kill("the lease cannot be measured") };
        (self.timer, self.clock, self.armed) = (timer, clock, None);
        self.confirmed = ClockTime(clock.now().0.saturating_sub(age));
    }

    /// Sets the timer while handlers run, and stops it while none does.
    pub(crate) fn watch(&mut self, running: usize) {
        let wanted = (running > 0).then_some(ClockTime(self.confirmed.0 + self.lease));
        if wanted != self.armed {
            self.armed = wanted;
            if !self.timer.set(wanted) {
                self.kill("the lease cannot be measured");
            }
        }
    }

    /// Ends the process at once: an attempt is over, and its handler still runs.
    pub(crate) fn kill(&self, why: &str) -> ! {
        // SIGKILL leaves no time for the program's own log.
        eprintln!("tenure: this process ends now: {why}");
        self.timer.kill()
    }
}

#[cfg(target_os = "linux")]
use linux::{KillTimer, read};

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;

    use nix::sys::signal::{SigEvent, SigevNotify, Signal, raise};
    use nix::sys::time::TimeSpec;
    use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
    use nix::time::{ClockId, clock_gettime};

    use super::{ClockTime, LeaseClock};
    use crate::error::Error;

    #[derive(Debug)]
    pub(super) struct KillTimer(Timer);

    pub(super) fn read(clock: LeaseClock) -> Duration {
        clock_gettime(id(clock)).map(Duration::from).unwrap_or_default()
    }

    fn id(clock: LeaseClock) -> ClockId {
        match clock {
            LeaseClock::Monotonic => ClockId::CLOCK_MONOTONIC,
            LeaseClock::Boottime => ClockId::CLOCK_BOOTTIME,
        }
    }

    impl KillTimer {
        pub(super) fn new(clock: LeaseClock) -> Result<KillTimer, Error> {
            let event = SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 });
            let timer = Timer::new(id(clock), event).map_err(|error| Error::BadSetting {
                what: "dying with the lease",
                why: format!("needs a kernel timer, and creating one failed: {error}").into(),
            })?;
            Ok(KillTimer(timer))
        }

        /// Sends SIGKILL at this time, even if it is over already; never, without a time.
        pub(super) fn set(&mut self, at: Option<ClockTime>) -> bool {
            let at = TimeSpec::from_duration(at.map_or(Duration::ZERO, |at| at.0));
            self.0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME).is_ok()
        }

        pub(super) fn kill(&self) -> ! {
            let _ = raise(Signal::SIGKILL);
            std::process::abort()
        }
    }
}

#[cfg(not(target_os = "linux"))]
use elsewhere::{KillTimer, read};

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::Duration;

    use super::{ClockTime, LeaseClock};
    use crate::error::Error;

    #[derive(Debug)]
    pub(super) struct KillTimer;

    pub(super) fn read(_: LeaseClock) -> Duration {
        Duration::ZERO
    }

    impl KillTimer {
        pub(super) fn new(_: LeaseClock) -> Result<KillTimer, Error> {
            Err(Error::BadSetting { what: "dying with the lease", why: "is possible on Linux only".into() })
        }

        pub(super) fn set(&mut self, _: Option<ClockTime>) -> bool {
            true
        }

        pub(super) fn kill(&self) -> ! {
            std::process::abort()
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_timer_runs_only_while_a_handler_does_and_ends_before_the_lease() {
        let lease = Duration::from_secs(3600);
        let mut guard = LeaseGuard::new(lease).unwrap();
        guard.watch(0);
        assert_eq!(guard.armed, None);
        let sent = guard.now();
        guard.confirm(sent);
        guard.watch(1);
        assert_eq!(guard.armed, Some(ClockTime(sent.0 + lease - MARGIN_MAX)));
        // An answer that arrives late moves nothing back.
        guard.confirm(ClockTime::default());
        guard.watch(2);
        assert_eq!(guard.armed, Some(ClockTime(sent.0 + lease - MARGIN_MAX)));
        guard.watch(0);
        assert_eq!(guard.armed, None);
    }

    #[test]
    fn another_clock_changes_nothing_of_what_is_left_of_the_lease() {
        let mut guard = LeaseGuard::new(Duration::from_secs(3600)).unwrap();
        guard.confirmed = ClockTime(guard.now().0.saturating_sub(Duration::from_secs(1)));
        guard.watch(1);
        let left = |guard: &LeaseGuard| guard.armed.map(|at| at.0 - guard.now().0).unwrap();
        let before = left(&guard);
        guard.set_clock(LeaseClock::Monotonic);
        assert_eq!(guard.armed, None, "the timer of the old clock is gone");
        guard.watch(1);
        assert!(left(&guard) <= before && left(&guard) + Duration::from_secs(60) > before);
    }

    #[test]
    fn a_short_lease_has_a_short_margin() {
        let guard = LeaseGuard::new(Duration::from_secs(2)).unwrap();
        assert_eq!(guard.lease, Duration::from_millis(1_900));
    }
}
