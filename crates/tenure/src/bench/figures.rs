//! Prints the figures for people and programs: one line each, with the target and what other servers reach.

use serde_json::{Value, json};

use crate::output::table::{Cell, Column, Table};

/// One thing that was measured, wherever it was.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) what: &'static str,
    pub(crate) unit: Unit,
    pub(crate) tenure: Option<f64>,
    /// The figure of the server that is compared with.
    pub(crate) other: Option<f64>,
    /// The most that the machine's disk allows.
    pub(crate) ceiling: Option<f64>,
    /// The meaning of an acknowledgement in this figure.
    pub(crate) durability: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    TasksPerSecond,
    DeliveriesPerSecond,
    /// Processor seconds of the server for 100,000 tasks or deliveries.
    CpuSeconds,
    Seconds,
    Milliseconds,
    Bytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::TasksPerSecond => "tasks/s",
            Unit::DeliveriesPerSecond => "deliveries/s",
            Unit::CpuSeconds => "CPU s per 100k",
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
            Unit::Bytes => "bytes",
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Unit::TasksPerSecond | Unit::DeliveriesPerSecond)
    }

    fn show(self, value: f64) -> String {
        match self {
            Unit::TasksPerSecond | Unit::DeliveriesPerSecond | Unit::Bytes => grouped(value.round()),
            Unit::CpuSeconds => format!("{value:.2}"),
            Unit::Seconds | Unit::Milliseconds => format!("{value:.3}"),
        }
    }
}

impl Figure {
    /// How many times better Tenure is.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let (tenure, other) = (self.tenure?, self.other?);
        let ratio = if self.unit.more_is_better() { tenure / other } else { other / tenure };
        ratio.is_finite().then_some(ratio)
    }

    pub(crate) fn json(&self, against: &str) -> Value {
        json!({
            "figure": self.what,
            "unit": self.unit.name(),
            "tenure": self.tenure,
            against: self.other,
            "ratio": self.ratio(),
            "ceiling": self.ceiling,
            "durability": self.durability,
        })
    }
}

pub(crate) fn table(figures: &[Figure], against: &'static str) -> Table {
    let mut table = Table::new(
        [
            Column::Fixed("FIGURE"),
            Column::Fixed("UNIT"),
            Column::Number("TENURE"),
            Column::Number(against),
            Column::Number("BETTER BY"),
            Column::Number("DISK ALONE"),
            Column::Flexible("ACKNOWLEDGED WHEN"),
        ],
        "nothing was measured",
    );
    for figure in figures {
        let show =
            |value: Option<f64>| Cell::from(value.map(|value| figure.unit.show(value)).unwrap_or_default());
        table.row([
            figure.what.into(),
            figure.unit.name().into(),
            show(figure.tenure),
            show(figure.other),
            figure.ratio().map(|ratio| format!("{ratio:.1}×")).unwrap_or_default().into(),
            show(figure.ceiling),
            figure.durability.into(),
        ]);
    }
    table
}

/// `1234567` as `1,234,567`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("-", digits));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: Unit, tenure: f64, other: f64) -> Figure {
        Figure { what: "x", unit, tenure: Some(tenure), other: Some(other), ceiling: None, durability: "" }
    }

    #[test]
    fn a_ratio_above_one_is_always_in_tenures_favour() {
        assert_eq!(figure(Unit::TasksPerSecond, 200.0, 100.0).ratio(), Some(2.0));
        assert_eq!(figure(Unit::Milliseconds, 0.5, 1.0).ratio(), Some(2.0));
        assert_eq!(figure(Unit::Bytes, 0.0, 1.0).ratio(), None);
    }

    #[test]
    fn long_numbers_are_grouped() {
        for (value, text) in [(0.0, "0"), (999.0, "999"), (1_000.0, "1,000"), (-1_234_567.0, "-1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }
}
