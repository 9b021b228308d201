//! Options for quantities of resources: what a task needs, and what a worker has.

use clap::Args;
use tenure_client::{CPUS, GPUS, MEM, Quantity};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ResourceArgs {
    /// Number of cpus: whole, or a part of one
    #[arg(long, value_name = "COUNT", value_parser = parse_quantity)]
    cpus: Option<Quantity>,
    /// Memory, such as 8GB or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_quantity)]
    mem: Option<Quantity>,
    /// Number of gpus: whole, or a part of one such as 0.5
    #[arg(long, value_name = "COUNT", value_parser = parse_quantity)]
    gpus: Option<Quantity>,
    /// Quantity of another resource, such as licence=2; repeat for several
    #[arg(long = "resource", value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = parse_resource)]
    resources: Vec<(String, Quantity)>,
}

impl ResourceArgs {
    pub(crate) fn all(&self) -> Vec<(String, Quantity)> {
        let known = [(CPUS, self.cpus), (MEM, self.mem), (GPUS, self.gpus)];
        let known = known.into_iter().filter_map(|(name, quantity)| Some((name.to_owned(), quantity?)));
        known.chain(self.resources.iter().cloned()).collect()
    }
}

fn parse_quantity(text: &str) -> Result<Quantity, String> {
    Quantity::parse(text).map_err(|why| why.to_string())
}

fn parse_resource(text: &str) -> Result<(String, Quantity), String> {
    let (name, quantity) = text.split_once('=').ok_or("write NAME=QUANTITY, such as licence=2")?;
    if name.is_empty() {
        return Err("the resource has no name: write NAME=QUANTITY, such as licence=2".to_owned());
    }
    Ok((name.to_owned(), parse_quantity(quantity)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_has_a_name_and_a_quantity() {
        assert_eq!(parse_resource("licence=2"), Ok(("licence".to_owned(), Quantity(2_000))));
        for text in ["licence", "=2", "licence=", "licence=many"] {
            assert!(parse_resource(text).is_err(), "{text}");
        }
    }
}
