//! A picture of messages between actors, from top to bottom in time.
//!
//! ```text
//! actor id name
//! message from to text
//! note actor text
//! ```

use anyhow::{Context, Result, bail};

use super::svg::Svg;

const COLUMN: f64 = 158.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 50.0;
const HEAD_HEIGHT: f64 = 34.0;
const HEAD_WIDTH: f64 = 130.0;
const STEP: f64 = 36.0;
/// The width of a letter of the texts, roughly.
const LETTER: f64 = 6.7;

pub(super) fn draw(title: &str, lines: &[&str]) -> Result<String> {
    let mut actors: Vec<(&str, &str)> = Vec::new();
    let mut steps = Vec::new();
    for line in lines {
        let (kind, rest) = line.split_once(' ').with_context(|| format!("`{line}` says nothing"))?;
        let (first, rest) = rest.trim().split_once(' ').with_context(|| format!("`{line}` is too short"))?;
        match kind {
            "actor" => actors.push((first, rest.trim())),
            "message" | "note" => steps.push((kind, first, rest.trim())),
            _ => bail!("`{line}` is neither an actor nor a message nor a note"),
        }
    }
    let x_of = |id: &str| -> Result<f64> {
        let index =
            actors.iter().position(|(known, _)| *known == id).with_context(|| format!("no actor {id}"))?;
        Ok(MARGIN + COLUMN * (index as f64 + 0.5))
    };
    let first = TOP + HEAD_HEIGHT + STEP;
    let bottom = first + STEP * steps.len() as f64;
    let mut svg = Svg::new(2.0 * MARGIN + COLUMN * actors.len() as f64, bottom + MARGIN, title);
    for (id, name) in &actors {
        let x = x_of(id)?;
        svg.line("life", (x, TOP + HEAD_HEIGHT), (x, bottom));
        svg.rect("box", (x - HEAD_WIDTH / 2.0, TOP), (HEAD_WIDTH, HEAD_HEIGHT));
        svg.text("name", (x, TOP + 22.0), "middle", name);
    }
    let mut number = 0;
    for (index, (kind, first_actor, rest)) in steps.iter().enumerate() {
        let y = first + STEP * index as f64;
        let x = x_of(first_actor)?;
        if *kind == "note" {
            let width = rest.chars().count() as f64 * LETTER + 20.0;
            svg.rect("note", (x - width / 2.0, y - 18.0), (width, 26.0));
            svg.text("text", (x, y), "middle", rest);
            continue;
        }
        number += 1;
        let (to, text) = rest.split_once(' ').with_context(|| format!("message {number} says nothing"))?;
        let end = x_of(to)?;
        svg.arrow((x, y), (end, y));
        let middle = f64::midpoint(x, end);
        svg.text("text label", (middle, y - 6.0), "middle", &format!("{number}  {}", text.trim()));
    }
    Ok(svg.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_numbered_and_notes_are_not() {
        let lines = ["actor a A", "actor b B", "message a b hello", "note b think", "message b a world"];
        let svg = draw("t", &lines).unwrap();
        assert!(svg.contains("1  hello") && svg.contains("2  world") && svg.contains(">think<"), "{svg}");
        assert!(
            draw("t", &["actor a A", "message a c hello"]).unwrap_err().to_string().contains("no actor c")
        );
    }
}
