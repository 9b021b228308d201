//! This machine's names of the cpus and gpus that the broker numbers from 0.

use super::machine;

#[derive(Debug)]
pub(crate) struct DeviceNames {
    cpus: Vec<String>,
    gpus: Vec<String>,
}

impl DeviceNames {
    /// The cpus on which this process may run, and the gpus that it may see.
    pub(crate) fn of_this_machine() -> DeviceNames {
        DeviceNames { cpus: machine::allowed_cpus(), gpus: machine::visible_gpus().unwrap_or_default() }
    }

    pub(crate) fn cpus(&self, numbers: &[u16]) -> String {
        named(numbers, &self.cpus)
    }

    pub(crate) fn gpus(&self, numbers: &[u16]) -> String {
        named(numbers, &self.gpus)
    }
}

/// A number without a name stands for itself.
fn named(numbers: &[u16], names: &[String]) -> String {
    let name = |number: &u16| names.get(usize::from(*number)).cloned().unwrap_or_else(|| number.to_string());
    numbers.iter().map(name).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_the_names_of_what_the_worker_may_use() {
        let names = DeviceNames { cpus: Vec::new(), gpus: vec!["2".to_owned(), "GPU-7f".to_owned()] };
        assert_eq!(names.gpus(&[1, 0]), "GPU-7f,2");
        assert_eq!(names.cpus(&[0, 3]), "0,3");
        assert_eq!(names.gpus(&[]), "");
    }
}
