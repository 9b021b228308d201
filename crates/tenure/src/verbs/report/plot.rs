//! Plots as SVG, without anything from elsewhere.

use std::time::Duration;

use super::tally::{BINS, ReportTotals};
use crate::units::show_duration;

const WIDTH: usize = 720;
const HEIGHT: usize = 160;
/// The room for the labels below a plot.
const BELOW: usize = 24;
/// Completed, failed, and cancelled or expired.
pub(super) const COLORS: [&str; 3] = ["#2f7d4f", "#c0392b", "#b8860b"];

/// How many tasks ended how, over time.
pub(super) fn over_time(tally: &ReportTotals, labels: (&str, &str)) -> String {
    let most = tally.over_time.iter().map(|bin| bin.iter().sum::<u64>()).max().unwrap_or_default().max(1);
    let step = WIDTH as f64 / BINS as f64;
    let mut bars = String::new();
    for (index, bin) in tally.over_time.iter().enumerate() {
        let mut top = HEIGHT as f64;
        for (count, color) in bin.iter().zip(COLORS) {
            let height = *count as f64 * HEIGHT as f64 / most as f64;
            if height > 0.0 {
                top -= height;
                bars += &bar(index as f64 * step, top, step - 1.0, height, color);
            }
        }
    }
    let (from, to) = labels;
    let y = HEIGHT + 16;
    svg(&format!(
        "{bars}<text x='0' y='{y}'>{from}</text><text x='{WIDTH}' y='{y}' text-anchor='end'>{to}</text>\
         <text x='0' y='10'>{most}</text>"
    ))
}

/// How many attempts took how long.
pub(super) fn histogram(classes: &[(Duration, u64)]) -> String {
    let most = classes.iter().map(|(_, count)| *count).max().unwrap_or_default().max(1);
    let step = WIDTH as f64 / classes.len().max(1) as f64;
    let every = classes.len().div_ceil(12).max(1);
    let mut bars = String::new();
    for (index, (bound, count)) in classes.iter().enumerate() {
        let height = *count as f64 * (HEIGHT - 14) as f64 / most as f64;
        let x = index as f64 * step;
        bars += &bar(x, HEIGHT as f64 - height, step - 2.0, height, COLORS[0]);
        let middle = x + step / 2.0;
        if *count > 0 {
            let above = HEIGHT as f64 - height - 3.0;
            bars += &format!("<text x='{middle:.1}' y='{above:.1}' text-anchor='middle'>{count}</text>");
        }
        if index % every == 0 {
            let (y, bound) = (HEIGHT + 16, show_duration(*bound));
            bars += &format!("<text x='{middle:.1}' y='{y}' text-anchor='middle'>≤{bound}</text>");
        }
    }
    svg(&bars)
}

/// A share as a bar in a line of text.
pub(super) fn share(share: f64) -> String {
    let width = (share.clamp(0.0, 1.0) * 200.0).round();
    format!(
        "<svg width='200' height='10'><rect width='200' height='10' fill='#ddd'/><rect width='{width}' height='10' \
         fill='{}'/></svg>",
        COLORS[0]
    )
}

fn bar(x: f64, y: f64, width: f64, height: f64, color: &str) -> String {
    let width = width.max(1.0);
    format!("<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' fill='{color}'/>")
}

fn svg(content: &str) -> String {
    let height = HEIGHT + BELOW;
    format!(
        "<svg viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' role='img'>{content}</svg>"
    )
}
