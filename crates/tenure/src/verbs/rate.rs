//! A rate on the command line: `10/m --burst 5`, or `--none`.

use clap::Args;
use tenure_client::Rate;

#[derive(Args, Debug)]
pub(crate) struct GivenRate {
    /// Tasks per period: 10/m, 100/s, 5/30s, 1000/d
    #[arg(value_name = "RATE", value_parser = parse, required_unless_present = "none")]
    rate: Option<Rate>,
    /// How many may go at once [default: what one second gives, at least 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..), requires = "rate")]
    burst: Option<u32>,
    /// Remove the rate
    #[arg(long, conflicts_with = "rate")]
    none: bool,
}

impl GivenRate {
    pub(crate) fn rate(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate { burst: self.burst, ..rate })
    }

    pub(crate) fn sentence(&self, what: &str) -> String {
        match self.rate() {
            Some(rate) => format!("rate of {what} is {rate}"),
            None => format!("rate of {what} removed"),
        }
    }
}

fn parse(text: &str) -> Result<Rate, String> {
    let rate = Rate::parse(text).ok_or("write a count and a period, such as 10/m, 100/s or 5/30s")?;
    if rate.count == 0 {
        Err("write at least 1; to stop all tasks, pause the queue".into())
    } else {
        Ok(rate)
    }
}
