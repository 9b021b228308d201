//! A picture of boxes on a grid, with arrows between them.
//!
//! ```text
//! box ROW COLUMN WIDTH name | text
//! arrow from to
//! ```

use anyhow::{Context, Result, bail};

use super::svg::{Svg, wrapped};

const COLUMN: f64 = 78.0;
const ROW: f64 = 96.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 50.0;
const HEIGHT: f64 = 62.0;
const GAP: f64 = 8.0;
/// The width of a letter of the texts, roughly.
const LETTER: f64 = 7.4;
/// How far from the border of a box an arrow begins, at least.
const INSET: f64 = 10.0;

struct GridBox<'a> {
    name: &'a str,
    text: &'a str,
    x: f64,
    y: f64,
    width: f64,
}

pub(super) fn draw(title: &str, lines: &[&str]) -> Result<String> {
    let mut boxes: Vec<GridBox<'_>> = Vec::new();
    let mut arrows = Vec::new();
    for line in lines {
        match line.split_once(' ') {
            Some(("box", rest)) => boxes.push(parse(rest).with_context(|| format!("in `{line}`"))?),
            Some(("arrow", rest)) => {
                let (from, to) = rest.trim().split_once(' ').with_context(|| format!("in `{line}`"))?;
                arrows.push((from, to.trim()));
            }
            _ => bail!("`{line}` is neither a box nor an arrow"),
        }
    }
    let right = boxes.iter().map(|grid_box| grid_box.x + grid_box.width).fold(0.0, f64::max);
    let bottom = boxes.iter().map(|grid_box| grid_box.y + HEIGHT).fold(0.0, f64::max);
    let mut svg = Svg::new(right + MARGIN, bottom + MARGIN, title);
    for (from, to) in arrows {
        let find = |name: &str| {
            boxes
                .iter()
                .find(|grid_box| grid_box.name == name)
                .with_context(|| format!("there is no box {name}"))
        };
        connect(&mut svg, find(from)?, find(to)?)?;
    }
    for grid_box in &boxes {
        let GridBox { name, text, x, y, width } = grid_box;
        svg.rect("box", (*x, *y), (*width, HEIGHT));
        svg.text("name", (x + width / 2.0, y + 21.0), "middle", name);
        for (index, line) in wrapped(text, ((width - 6.0) / LETTER) as usize).iter().enumerate() {
            svg.text("text", (x + width / 2.0, y + 39.0 + 15.0 * index as f64), "middle", line);
        }
    }
    Ok(svg.finish())
}

fn parse(rest: &str) -> Result<GridBox<'_>> {
    let (place, text) = rest.split_once('|').context("no text")?;
    let mut parts = place.split_whitespace();
    let mut number = || -> Result<f64> { Ok(parts.next().context("a number is missing")?.parse()?) };
    let (row, column, width) = (number()?, number()?, number()?);
    Ok(GridBox {
        name: parts.next().context("no name")?,
        text: text.trim(),
        x: MARGIN + column * COLUMN + GAP / 2.0,
        y: TOP + row * ROW,
        width: width * COLUMN - GAP,
    })
}

/// Down where the boxes lie above each other, or sideways in one row.
fn connect(svg: &mut Svg, from: &GridBox<'_>, to: &GridBox<'_>) -> Result<()> {
    if from.y < to.y {
        let left = from.x.max(to.x);
        let right = (from.x + from.width).min(to.x + to.width);
        if right - left < 2.0 * INSET {
            bail!("{} does not lie above {}", from.name, to.name);
        }
        let x = f64::midpoint(left, right);
        svg.arrow((x, from.y + HEIGHT), (x, to.y));
        return Ok(());
    }
    let y = from.y + HEIGHT / 2.0;
    let (start, end) = if from.x < to.x { (from.x + from.width, to.x) } else { (from.x, to.x + to.width) };
    svg.arrow((start, y), (end, y));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_needs_both_boxes_one_above_the_other() {
        let boxes = ["box 0 0 2 a | one", "box 1 0 2 b | two", "box 1 4 1 c | three"];
        let with = |arrow: &'static str| draw("t", &[boxes.as_slice(), &[arrow]].concat());
        assert!(with("arrow a b").unwrap().contains("class=\"head\""));
        assert!(with("arrow a x").unwrap_err().to_string().contains("no box x"));
        assert!(with("arrow a c").unwrap_err().to_string().contains("a does not lie above c"));
    }
}
