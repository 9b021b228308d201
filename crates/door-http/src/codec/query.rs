//! The values in the path and in the query string.

use percent_encoding::percent_decode_str;

use crate::problem::ProblemDetails;

/// Every path has this parameter.
const NAMESPACE: &str = "namespace";
/// How many parameters a query string may have.
const PARAMETERS_MAX: usize = 200;

/// The values of the path's parameters.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathValues(Vec<(String, String)>);

impl PathValues {
    pub(crate) fn new(values: Vec<(String, String)>) -> PathValues {
        PathValues(values)
    }

    pub(crate) fn get(&self, key: &str) -> Result<&str, ProblemDetails> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).ok_or_else(ProblemDetails::unexpected)
    }
}

/// The parameters of the query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryString(Vec<(String, String)>);

impl QueryString {
    pub(crate) fn parse(text: &str) -> Result<QueryString, ProblemDetails> {
        let mut pairs = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            if pairs.len() == PARAMETERS_MAX {
                return Err(ProblemDetails::bad_value(format!("more than {PARAMETERS_MAX} parameters")));
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            pairs.push((decoded(name)?, decoded(value)?));
        }
        Ok(QueryString(pairs))
    }

    /// Refuses parameters that the endpoint does not have: one that is misspelt would have no effect.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ProblemDetails> {
        match self.0.iter().find(|(name, _)| name != NAMESPACE && !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(ProblemDetails::bad_value(format!(
                "{name:?} is not a parameter of this path, which has none"
            ))),
            Some((name, _)) => {
                let known = known.join(", ");
                Err(ProblemDetails::bad_value(format!(
                    "{name:?} is not a parameter of this path; it has {known}"
                )))
            }
        }
    }

    /// The namespace that the request is about, if the query string names it.
    pub(crate) fn namespace(&self) -> Result<Option<&str>, ProblemDetails> {
        self.one(NAMESPACE)
    }

    /// A parameter that may be there once. An empty one counts as missing.
    pub(crate) fn one(&self, key: &str) -> Result<Option<&str>, ProblemDetails> {
        let mut values = self.many(key);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(ProblemDetails::bad_value(format!("{key:?} is given twice"))),
        }
    }

    /// All values of a parameter.
    pub(crate) fn many<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// A number.
    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Result<Option<T>, ProblemDetails> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| ProblemDetails::bad_value(format!("{key}={text:?} is not a number that fits")))
        };
        if self.0.iter().any(|(name, value)| name == key && value.is_empty()) {
            return Err(ProblemDetails::bad_value(format!(
                "{key}= has no value: give a number, or leave it out"
            )));
        }
        self.one(key)?.map(number).transpose()
    }

    /// `true` or `false`; a parameter without a value is true.
    pub(crate) fn flag(&self, key: &str) -> Result<bool, ProblemDetails> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        match found.next().map(|(_, value)| value.as_str()) {
            None | Some("false" | "0") => Ok(false),
            Some("" | "true" | "1") => Ok(true),
            Some(other) => {
                Err(ProblemDetails::bad_value(format!("{key}={other:?} is neither true nor false")))
            }
        }
    }
}

/// Decodes `%20` and `+`.
fn decoded(text: &str) -> Result<String, ProblemDetails> {
    percent(&text.replace('+', " "))
}

/// Decodes `%20`.
pub(crate) fn percent(text: &str) -> Result<String, ProblemDetails> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|_| ProblemDetails::bad_value("the path or the query string is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_counted_and_known() {
        let query = QueryString::parse("state=ready&state=failed&queue=a%20b+c&hold&empty=").unwrap();
        assert_eq!(query.many("state").collect::<Vec<_>>(), ["ready", "failed"]);
        assert_eq!(query.one("queue").unwrap(), Some("a b c"));
        assert!(query.flag("hold").unwrap() && !query.flag("other").unwrap());
        assert_eq!(query.one("empty").unwrap(), None);
        assert!(query.one("state").is_err(), "twice");
        assert!(query.only(&["state", "queue", "hold", "empty"]).is_ok());
        assert!(query.only(&["state"]).unwrap_err().detail.contains("\"queue\""));
        assert!(QueryString::parse("a=%ff").is_err());
        assert!(QueryString::parse(&"a=1&".repeat(PARAMETERS_MAX)).is_ok());
        assert!(QueryString::parse(&"a=1&".repeat(PARAMETERS_MAX + 1)).is_err());
    }
}
