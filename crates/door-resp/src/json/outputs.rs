//! Outputs of a job, reported at once or in parts.

use bytes::Bytes;
use serde_json::Value;
use tenure_door_kit::worker_actor;

use super::base64::{bytes_field, decode_base64};

/// All outputs that a worker may report. All are `Bytes`, so that a copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    pub result: Option<Bytes>,
    /// A list, as JSON.
    pub task_results: Option<Bytes>,
    pub stdout: Option<Bytes>,
    pub stderr: Option<Bytes>,
    /// Outputs for which the broker has no field of its own.
    pub exit_code: Option<i32>,
    pub error: Option<String>,
}

impl worker_actor::TaskOutputs for Outputs {
    const BYTES_MAX: usize = crate::codec::RespLimits::MESSAGE_BYTES_MAX;

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn add(&mut self, later: Self) {
        self.add(later);
    }

    fn bytes(&self) -> usize {
        self.size()
    }

    fn result(&self) -> Bytes {
        self.stored()
    }

    fn checkpoint(&self) -> Bytes {
        self.to_checkpoint()
    }

    fn from_checkpoint(checkpoint: &[u8]) -> Option<Self> {
        Self::from_checkpoint_bytes(checkpoint)
    }
}

impl Outputs {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A later value of an output replaces an earlier one.
    pub fn add(&mut self, later: Self) {
        let Self { result, task_results, stdout, stderr, exit_code, error } = later;
        self.result = result.or_else(|| self.result.take());
        self.task_results = task_results.or_else(|| self.task_results.take());
        self.stdout = stdout.or_else(|| self.stdout.take());
        self.stderr = stderr.or_else(|| self.stderr.take());
        self.exit_code = exit_code.or(self.exit_code);
        self.error = error.or_else(|| self.error.take());
    }

    pub fn size(&self) -> usize {
        let bytes = [&self.result, &self.task_results, &self.stdout, &self.stderr];
        let error = self.error.as_ref().map_or(0, String::len);
        bytes.into_iter().flatten().map(Bytes::len).sum::<usize>() + error
    }

    /// What is stored: a lone result as it is, anything else as one JSON object.
    pub fn stored(&self) -> Bytes {
        if let Some(result) = &self.result
            && (Self { result: None, ..self.clone() }).is_empty()
        {
            return result.clone();
        }
        if self.is_empty() {
            return Bytes::new();
        }
        self.to_checkpoint()
    }

    /// What is saved until the job ends, as a checkpoint.
    pub fn to_checkpoint(&self) -> Bytes {
        let mut fields = Vec::new();
        if let Some(error) = &self.error {
            fields.push(format!(r#""error":{}"#, Value::from(error.as_str())));
        }
        if let Some(code) = self.exit_code {
            fields.push(format!(r#""exit_code":{code}"#));
        }
        for (name, value) in [("result", &self.result), ("stderr", &self.stderr), ("stdout", &self.stdout)] {
            let field = value.as_ref().map(|bytes| bytes_field(name, bytes));
            fields.extend(field.map(|(name, value)| format!(r#""{name}":{value}"#)));
        }
        if let Some(steps) = &self.task_results {
            fields.push(format!(r#""task_results":{}"#, String::from_utf8_lossy(steps)));
        }
        Bytes::from(format!("{{{}}}", fields.join(",")))
    }

    /// Reads a checkpoint; `None` if it has another format.
    pub fn from_checkpoint_bytes(to_checkpoint: &[u8]) -> Option<Self> {
        let Value::Object(mut fields) = serde_json::from_slice(to_checkpoint).ok()? else { return None };
        let text = |value: Value| value.as_str().map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let mut bytes = |name: &str| match fields.remove(&format!("{name}_base64")) {
            Some(value) => decode_base64(value.as_str()?).map(Bytes::from),
            None => fields.remove(name).and_then(text),
        };
        let (result, stdout, stderr) = (bytes("result"), bytes("stdout"), bytes("stderr"));
        Some(Self {
            result,
            stdout,
            stderr,
            task_results: fields.remove("task_results").map(|steps| Bytes::from(steps.to_string())),
            exit_code: fields.remove("exit_code").and_then(|code| i32::try_from(code.as_i64()?).ok()),
            error: fields.remove("error").and_then(|error| error.as_str().map(str::to_owned)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(text: &'static str) -> Outputs {
        Outputs { stdout: Some(text.into()), ..Outputs::default() }
    }

    #[test]
    fn they_add_up_and_the_last_word_about_each_counts() {
        let mut outputs = stdout("a");
        outputs.add(Outputs { stderr: Some("b".into()), ..Outputs::default() });
        outputs.add(Outputs { task_results: Some("[{}]".into()), ..Outputs::default() });
        outputs.add(stdout("c\n"));
        assert_eq!(outputs.stored(), r#"{"stderr":"b","stdout":"c\n","task_results":[{}]}"#);
        assert_eq!(outputs.size(), 7);
    }

    #[test]
    fn a_lone_result_is_stored_as_it_is_and_beside_others_as_one_of_them() {
        let mut outputs = Outputs { result: Some("plain".into()), ..Outputs::default() };
        assert_eq!(outputs.stored(), "plain");
        outputs.add(stdout("x"));
        assert_eq!(outputs.stored(), r#"{"result":"plain","stdout":"x"}"#);
        assert_eq!(Outputs::default().stored(), "");
    }

    #[test]
    fn saved_outputs_are_read_back_as_they_were() {
        let outputs = Outputs {
            result: Some("r".into()),
            task_results: Some(r#"[{"step":1.5}]"#.into()),
            stdout: Some(Bytes::from_static(b"\xff\0")),
            stderr: Some("line\n".into()),
            exit_code: Some(-7),
            error: Some("\"no\"".into()),
        };
        for outputs in [outputs, stdout(""), Outputs { result: Some("lone".into()), ..Outputs::default() }] {
            assert_eq!(Outputs::from_checkpoint_bytes(&outputs.to_checkpoint()), Some(outputs));
        }
        assert_eq!(Outputs::from_checkpoint_bytes(b"of another door"), None);
    }

    #[test]
    fn bytes_that_are_no_text_stay_what_they_are() {
        let outputs = Outputs { stdout: Some(Bytes::from_static(b"\xff\0")), ..Outputs::default() };
        assert_eq!(outputs.stored(), r#"{"stdout_base64":"/wA="}"#);
    }
}
