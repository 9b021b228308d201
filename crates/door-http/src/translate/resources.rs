//! Quantities of resources, as JSON.

use serde_json::{Map, Value, json};
use tenure_hub::words::{Name, Quantity, Refusal, Resource};

/// Reads an object of quantities: numbers with at most three decimals, or texts such as `8GB`.
pub(super) fn resources(object: &Map<String, Value>) -> Result<Vec<Resource>, Refusal> {
    let one = |(name, value): (&String, &Value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let why = "is not a quantity: write a number with at most three decimals, or a text such as 8GB";
        let quantity = Quantity::parse(&text).ok_or(Refusal::BadValue { what: "resource", why })?;
        Ok(Resource::new(name.as_str(), quantity))
    };
    object.iter().map(one).collect()
}

/// Writes quantities as numbers. Memory is counted in bytes.
pub(super) fn quantities<'a>(resources: impl Iterator<Item = (&'a Name, Quantity)>) -> Value {
    resources.map(|(name, of)| (name.to_string(), quantity(of))).collect::<Map<_, _>>().into()
}

pub(super) fn quantity(quantity: Quantity) -> Value {
    if quantity.is_whole() { json!(quantity.0 / 1000) } else { json!(quantity.0 as f64 / 1000.0) }
}
