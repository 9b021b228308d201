//! `WORKER.HEARTBEAT`: statistics that a worker reports about itself.

use bytes::Bytes;
use tenure_plans::{Document, SchemaError};

const WHAT: &str = "Invalid stats";
const STATISTICS_BYTES_MAX: usize = 16 * 1024;

/// The known numbers, and the document as sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    pub active_jobs: Option<u64>,
    pub completed_jobs: Option<u64>,
    pub failed_jobs: Option<u64>,
    pub uptime_seconds: Option<u64>,
    pub cpu_percent: Option<f64>,
    pub memory_mb: Option<f64>,
    pub json: Bytes,
}

impl Statistics {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, SchemaError> {
        let mut object = Document::parse(WHAT, json, STATISTICS_BYTES_MAX)?;
        let mut count = |field| {
            let number = object.integer(field, 0..=i64::MAX)?;
            Ok::<_, SchemaError>(number.map(i64::unsigned_abs))
        };
        Ok(Self {
            active_jobs: count("active_jobs")?,
            completed_jobs: count("completed_jobs_total")?,
            failed_jobs: count("failed_jobs_total")?,
            uptime_seconds: count("uptime_seconds")?,
            cpu_percent: object.number("cpu_usage_percent", 0.0..=f64::MAX)?,
            memory_mb: object.number("memory_mb", 0.0..=f64::MAX)?,
            json: Bytes::copy_from_slice(json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_are_read_and_all_of_it_is_kept() {
        let json = br#"{"active_jobs":2,"cpu_usage_percent":45.2,"disk_available_gb":120}"#;
        let statistics = Statistics::parse(json).unwrap();
        assert_eq!(statistics.active_jobs, Some(2));
        assert_eq!(statistics.cpu_percent, Some(45.2));
        assert_eq!(statistics.json, &json[..]);
        assert_eq!(Statistics::parse(b"{}").unwrap().active_jobs, None);
    }

    #[test]
    fn numbers_that_are_none_are_named() {
        let error = Statistics::parse(br#"{"active_jobs":"two"}"#).unwrap_err();
        assert_eq!(error.to_string(), "Invalid stats: active_jobs is not an integer");
        let error = Statistics::parse(br#"{"active_jobs":-1}"#).unwrap_err();
        assert!(error.to_string().starts_with("Invalid stats: active_jobs is not between 0"));
        assert_eq!(Statistics::parse(b"7").unwrap_err().to_string(), "Invalid stats: not a JSON object");
    }
}
