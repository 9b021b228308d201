//! Ends of attempts that the broker has not heard of when the worker leaves. The program can keep them, and a later
//! worker of the same name can report them, as long as the attempts are still its own.

use bytes::{Bytes, BytesMut};
use tenure_wire::limits::FRAME_BYTES_MAX;
use tenure_wire::request::{Complete, Confirm, GiveBack};
use tenure_wire::task::Held;
use tenure_wire::{Request, TaskId, decode_to_broker, encode_request, split_frames};

use super::outcome::Failure;
use super::report::AttemptReport;
use crate::error::Error;

/// The end of one attempt, not yet reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreported {
    pub(crate) held: Held,
    pub(crate) report: AttemptReport,
}

impl Unreported {
    /// The task that the report is about.
    pub fn task(&self) -> TaskId {
        self.held.task
    }

    /// The attempt that ended.
    pub fn attempt(&self) -> u32 {
        self.held.attempt
    }

    /// As bytes to be kept: one frame of the native protocol, the request that would have reported it.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::new();
        encode_request(&mut out, 1, &self.report.request(self.held));
        out.freeze()
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8]) -> Result<Unreported, Error> {
        let mut arrived = BytesMut::from(bytes);
        let frames = split_frames(&mut arrived, FRAME_BYTES_MAX);
        let mut frames = frames.map_err(|error| Error::protocol(error.to_string()))?;
        let (Some(frame), None, true) = (frames.next(), frames.next(), arrived.is_empty()) else {
            return Err(Error::protocol("is not one whole frame"));
        };
        let request = decode_to_broker(&frame).map_err(|error| Error::protocol(error.to_string()))?.request;
        match request {
            Request::Complete(Complete { done }) => match <[_; 1]>::try_from(done) {
                Ok([done]) => Ok(Unreported {
                    held: Held { task: done.task, attempt: done.attempt },
                    report: AttemptReport::Complete(done.result),
                }),
                Err(done) => Err(Error::protocol(format!("reports {} completions, not one", done.len()))),
            },
            Request::Fail(fail) => {
                let mut failure =
                    Failure::new(fail.exit_code, fail.message.unwrap_or_default().into_string())
                        .result(fail.result);
                failure.crashed = fail.crashed;
                failure.is_final = fail.is_final;
                let held = Held { task: fail.task, attempt: fail.attempt };
                Ok(Unreported { held, report: AttemptReport::Fail(Box::new(failure)) })
            }
            Request::Confirm(Confirm { task, attempt, wanted, result }) => Ok(Unreported {
                held: Held { task, attempt },
                report: AttemptReport::Confirm { wanted, result },
            }),
            Request::GiveBack(GiveBack { task, attempt, reason }) => {
                Ok(Unreported { held: Held { task, attempt }, report: AttemptReport::GiveBack { reason } })
            }
            other => Err(Error::protocol(format!("holds {}, which reports no end", other.kind()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_wire::words::Wanted;

    use super::*;

    #[test]
    fn every_report_is_read_back_as_it_was_kept() {
        let held = Held { task: TaskId([7; 16]), attempt: 3 };
        let failure = Failure::new(7, "below zero").result("partial").last().crashed();
        for report in [
            AttemptReport::Complete("done".into()),
            AttemptReport::Fail(Box::new(failure)),
            AttemptReport::Confirm { wanted: Wanted::Cancel, result: "half".into() },
            AttemptReport::GiveBack { reason: Some("leaving".into()) },
        ] {
            let kept = Unreported { held, report };
            let bytes = kept.to_bytes();
            assert_eq!(Unreported::from_bytes(&bytes).unwrap(), kept);
            assert!(Unreported::from_bytes(&bytes[..bytes.len() - 1]).is_err(), "half a file");
            assert!(Unreported::from_bytes(&[&bytes[..], b"x"].concat()).is_err(), "more than one");
        }
        let mut other = BytesMut::new();
        encode_request(&mut other, 1, &Request::Leave);
        assert!(Unreported::from_bytes(&other).is_err());
        assert!(Unreported::from_bytes(b"").is_err());
    }
}
