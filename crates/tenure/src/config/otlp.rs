//! The `[otlp]` table of the file: where spans go.

use std::path::Path;
use std::time::Duration;

use tenure_outbound::{HttpTarget, SpanExportSettings, TrustedRoots};
use toml::{Table, Value};

use super::nearest;
use super::problem::Problem;
use crate::units::parse_duration;

const FIELDS: [&str; 5] = ["endpoint", "headers", "service", "timeout", "ca_file"];
/// Where collectors take traces.
const PATH: &str = "/v1/traces";

/// Takes the table out of the file and reads it.
pub(crate) fn take(file: &mut Table, from: &str, problems: &mut Vec<Problem>) -> Option<SpanExportSettings> {
    let settings = match file.remove("otlp")? {
        Value::Table(table) => read(&table),
        _ => Err("write a table, under [otlp]".to_owned()),
    };
    settings.map_err(|why| problems.push(Problem::new(from, format!("otlp: {why}")))).ok()
}

fn read(table: &Table) -> Result<SpanExportSettings, String> {
    if let Some(field) = table.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return Err(nearest::unknown("field", field, FIELDS));
    }
    let text = |field: &str| match table.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.is_empty() => Ok(Some(text.as_str())),
        Some(_) => Err(format!("`{field}` must be a text that is not empty")),
    };
    let endpoint = text("endpoint")?.ok_or("`endpoint` is missing: write http://HOST:4318")?;
    let endpoint = endpoint.trim_end_matches('/');
    let has_path = endpoint.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let address = if has_path { endpoint.to_owned() } else { format!("{endpoint}{PATH}") };
    let target = HttpTarget::parse(&address).map_err(|fault| format!("`endpoint` {fault}"))?;
    let roots = match (text("ca_file")?, target.is_tls()) {
        (Some(_), false) => return Err("`ca_file` is for https: `endpoint` begins with http".to_owned()),
        (None, false) => None,
        (Some(file), true) => Some(TrustedRoots::of_file(Path::new(file))),
        (None, true) => Some(TrustedRoots::of_system()),
    };
    let timeout = match text("timeout")?.map(parse_duration).transpose()? {
        Some(Duration::ZERO) => return Err("`timeout` must be longer than 0".to_owned()),
        timeout => timeout.unwrap_or(Duration::from_secs(10)),
    };
    let headers = match table.get("headers") {
        None => Vec::new(),
        Some(Value::Table(headers)) => {
            let header = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
            let all: Option<Vec<_>> = headers.iter().map(header).collect();
            all.ok_or("`headers` must be a table of texts")?
        }
        Some(_) => return Err("`headers` must be a table of texts".to_owned()),
    };
    Ok(SpanExportSettings {
        target,
        roots: roots.transpose().map_err(|fault| fault.to_string())?,
        headers,
        service: text("service")?.unwrap_or("tenure").to_owned(),
        timeout,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<SpanExportSettings>, Vec<String>) {
        let mut problems = Vec::new();
        let mut table: Table = text.parse().expect("TOML");
        let settings = take(&mut table, "tenure.toml", &mut problems);
        (settings, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn an_endpoint_without_a_path_gets_the_usual_one() {
        let target = |text: &str| read(text).0.expect("it is valid").target.without_secrets();
        assert_eq!(target("[otlp]\nendpoint = \"http://c:4318\"\n"), "http://c:4318/v1/traces");
        assert_eq!(target("[otlp]\nendpoint = \"http://c:4318/\"\n"), "http://c:4318/v1/traces");
        assert_eq!(target("[otlp]\nendpoint = \"http://c/otlp/t\"\n"), "http://c/otlp/t");
        assert!(read("").0.is_none());
    }

    #[test]
    fn every_mistake_is_named() {
        for (text, hint) in [
            ("otlp = \"x\"", "under [otlp]"),
            ("[otlp]", "`endpoint` is missing"),
            ("[otlp]\nendpoint = \"c:4318\"", "`endpoint` is not an address"),
            ("[otlp]\nendpiont = \"http://c\"", "did you mean `endpoint`"),
            ("[otlp]\nendpoint = \"http://c\"\nheaders = { a = 1 }", "a table of texts"),
            ("[otlp]\nendpoint = \"http://c\"\ntimeout = \"0s\"", "longer than 0"),
            ("[otlp]\nendpoint = \"http://c\"\nca_file = \"x\"", "is for https"),
        ] {
            let (_, problems) = read(&format!("{text}\n"));
            assert!(problems.len() == 1 && problems[0].contains(hint), "{text}: {problems:?}");
        }
    }
}
