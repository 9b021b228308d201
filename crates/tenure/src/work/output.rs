//! The result of a shell task: one JSON object. `tenure logs` and the RESP door read it.
//!
//! `docs/guide/workers.md` shows the format. Fields may be added; existing ones keep their meaning.

use serde::{Deserialize, Serialize};

use crate::units::show_size;

/// The result of a shell task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Output {
    /// As a shell counts: death by signal n is 128 + n.
    pub(crate) exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    #[serde(default)]
    pub(crate) stdout_truncated: bool,
    #[serde(default)]
    pub(crate) stderr_truncated: bool,
    #[serde(default)]
    pub(crate) duration_ms: u64,
    /// The directory in which the command ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<String>,
    /// The files that were left in the task's private directory, which is removed unless `kept_in` names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<LeftFile>,
    /// There were more than are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) more_files: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kept_in: Option<String>,
    /// Of a plan: what each step did, up to the one that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) task_results: Vec<StepOutput>,
}

/// A file in a task's private directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
}

/// The output of one step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StepOutput {
    pub(crate) task_number: u32,
    pub(crate) exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    #[serde(default)]
    pub(crate) stdout_truncated: bool,
    #[serde(default)]
    pub(crate) stderr_truncated: bool,
    #[serde(default)]
    pub(crate) duration_ms: u64,
    /// It ran longer than its step may.
    #[serde(default)]
    pub(crate) timed_out: bool,
}

impl Output {
    /// A sentence on the files in the private directory, if there were any.
    pub(crate) fn files_sentence(&self) -> Option<String> {
        const SHOWN_MAX: usize = 5;
        if self.files.is_empty() {
            return None;
        }
        let shown: Vec<String> = self
            .files
            .iter()
            .take(SHOWN_MAX)
            .map(|file| format!("{} ({})", file.path, show_size(file.bytes)))
            .collect();
        let more = if self.more_files || self.files.len() > SHOWN_MAX { " and more" } else { "" };
        let shown = format!("{}{more}", shown.join(", "));
        Some(match &self.kept_in {
            Some(dir) => format!("its private directory {dir} is kept: {shown}"),
            None => format!(
                "its private directory was removed with {shown}; submit with --cwd DIR, or start the worker with --keep-files"
            ),
        })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Text and numbers always become JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_back_as_it_was_kept() {
        let step = StepOutput {
            task_number: 2,
            exit_code: 143,
            signal: Some(15),
            timed_out: true,
            ..StepOutput::default()
        };
        let output =
            Output { exit_code: 3, stdout: "hello\n".into(), task_results: vec![step], ..Output::default() };
        assert_eq!(serde_json::from_slice::<Output>(&output.to_bytes()).unwrap(), output);
    }

    #[test]
    fn a_result_without_the_newer_fields_is_read_too() {
        let output: Output =
            serde_json::from_str(r#"{"exit_code": 0, "stdout": "a", "stderr": ""}"#).unwrap();
        assert_eq!((output.exit_code, output.stdout.as_str(), output.task_results.len()), (0, "a", 0));
    }
}
