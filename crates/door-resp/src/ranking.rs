//! Ranking of capabilities by their descriptions: BM25 over plain words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The usual BM25 constants: saturation of repeated words, and normalization by length.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// A word in the name counts as this many in the description.
const NAME_WEIGHT: usize = 3;

/// One capability, merged from all workers that offer it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Described {
    pub name: String,
    pub version: Option<String>,
    pub description: Option<String>,
    pub inputs: Value,
    pub outputs: Value,
    pub workers: BTreeSet<String>,
}

impl Described {
    /// From one entry of `agentic_units` or `tools`: a name, or what the program prints for `--describe`.
    pub(crate) fn parse(entry: &Value) -> Option<Described> {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).map(str::to_owned);
        match entry {
            Value::String(name) => Some(Described { name: name.clone(), ..Described::default() }),
            Value::Object(_) => Some(Described {
                name: text("name")?,
                version: text("version"),
                description: text("description"),
                inputs: entry.get("inputs").cloned().unwrap_or(Value::Null),
                outputs: entry.get("outputs").cloned().unwrap_or(Value::Null),
                workers: BTreeSet::new(),
            }),
            _ => None,
        }
    }

    fn words(&self) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..NAME_WEIGHT {
            words(&self.name, &mut all);
        }
        words(self.description.as_deref().unwrap_or_default(), &mut all);
        for part in [&self.inputs, &self.outputs] {
            if !part.is_null() {
                words(&part.to_string(), &mut all);
            }
        }
        all
    }
}

/// All capabilities that workers describe.
#[derive(Debug, Default)]
pub(crate) struct CapabilityIndex {
    capabilities: BTreeMap<String, Described>,
}

impl CapabilityIndex {
    /// Adds what one worker offers. The first description that is not empty counts.
    pub(crate) fn add(&mut self, worker: &str, registration: &Value) {
        let capabilities = &registration["capabilities"];
        let lists = [capabilities, &capabilities["tools"], &capabilities["agentic_units"]];
        for entry in lists.into_iter().filter_map(Value::as_array).flatten() {
            let Some(mut described) = Described::parse(entry) else { continue };
            let known = self.capabilities.entry(described.name.clone()).or_default();
            if known.description.is_none() {
                described.workers = std::mem::take(&mut known.workers);
                *known = described;
            }
            known.workers.insert(worker.to_owned());
        }
    }

    /// The capabilities that match, the best first, with their scores.
    pub(crate) fn search(&self, query: &str) -> Vec<(f64, &Described)> {
        let documents: Vec<(Vec<String>, &Described)> =
            self.capabilities.values().map(|described| (described.words(), described)).collect();
        let mut asked = Vec::new();
        words(query, &mut asked);
        asked.sort_unstable();
        asked.dedup();
        let total: usize = documents.iter().map(|(words, _)| words.len()).sum();
        let mean = (total as f64 / documents.len().max(1) as f64).max(1.0);
        let mut found = Vec::new();
        for (words, described) in &documents {
            let mut score = 0.0;
            for word in &asked {
                let count = words.iter().filter(|known| *known == word).count() as f64;
                if count > 0.0 {
                    let having = documents.iter().filter(|(words, _)| words.contains(word)).count() as f64;
                    let rarity = (1.0 + (documents.len() as f64 - having + 0.5) / (having + 0.5)).ln();
                    let length = 1.0 - B + B * words.len() as f64 / mean;
                    score += rarity * count * (K1 + 1.0) / (count + K1 * length);
                }
            }
            if score > 0.0 {
                found.push((score, *described));
            }
        }
        found.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.name.cmp(&other.1.name)));
        found
    }
}

/// Words that say nothing about a capability.
const COMMON: [&str; 16] =
    ["a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "the", "to"];

/// Letters and digits in lower case, without the plural's s.
fn words(text: &str, into: &mut Vec<String>) {
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if COMMON.contains(&word.as_str()) {
            continue;
        }
        let stem = word.strip_suffix('s').filter(|stem| stem.len() > 2 && !stem.ends_with('s'));
        into.push(stem.map_or_else(|| word.clone(), str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn index() -> CapabilityIndex {
        let mut index = CapabilityIndex::default();
        let unit = |name: &str, description: &str| json!({"name": name, "version": "0.1.0", "description": description});
        index.add(
            "w-1",
            &json!({"capabilities": {"tools": ["sort"], "agentic_units": [
                unit("agx-ocr", "Reads the text of scanned pages and images"),
                unit("agx-sum", "Summarizes long texts"),
            ]}}),
        );
        index.add("w-2", &json!({"capabilities": ["sort", "agx-ocr"]}));
        index
    }

    fn names(query: &str) -> Vec<String> {
        index().search(query).into_iter().map(|(_, described)| described.name.clone()).collect()
    }

    #[test]
    fn the_best_description_comes_first() {
        assert_eq!(names("read a scanned image"), ["agx-ocr"]);
        assert_eq!(names("summarizes text")[0], "agx-sum");
        assert_eq!(names("ocr"), ["agx-ocr"]);
        assert_eq!(names("sort"), ["sort"]);
        assert!(names("the weather of today").is_empty() && names("").is_empty());
    }

    #[test]
    fn a_worker_that_only_names_a_capability_shares_its_description() {
        let index = index();
        let (_, ocr) = index.search("ocr")[0];
        assert_eq!(ocr.workers.iter().collect::<Vec<_>>(), ["w-1", "w-2"]);
        assert!(ocr.description.is_some());
    }
}
