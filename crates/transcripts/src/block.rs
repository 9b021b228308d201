//! The fenced blocks of a page.

use crate::TranscriptError;

/// A block as it stands in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptBlock {
    pub title: String,
    /// The line of the page where it begins.
    pub line: usize,
    /// What stands between the fences.
    pub lines: Vec<String>,
}

/// All blocks of a page that are marked `transcript`.
pub fn blocks(page: &str) -> Result<Vec<TranscriptBlock>, TranscriptError> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, text)) = lines.next() {
        let Some(title) = text.strip_prefix("```transcript") else { continue };
        let mut block =
            TranscriptBlock { title: title.trim().to_owned(), line: index + 1, lines: Vec::new() };
        loop {
            let Some((_, text)) = lines.next() else {
                return Err(TranscriptError::Unfinished { line: block.line });
            };
            if text.starts_with("```") {
                break;
            }
            block.lines.push(text.to_owned());
        }
        found.push(block);
    }
    Ok(found)
}

impl TranscriptBlock {
    /// What is said, each with the line of the page where it begins: without remarks, indented lines joined to the one
    /// before.
    pub(crate) fn sentences(&self) -> Vec<(usize, String)> {
        let mut sentences: Vec<(usize, String)> = Vec::new();
        for (index, text) in self.lines.iter().enumerate() {
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            match sentences.last_mut() {
                Some((_, before)) if text.starts_with(char::is_whitespace) => {
                    before.push(' ');
                    before.push_str(text.trim());
                }
                _ => sentences.push((self.line + 1 + index, text.clone())),
            }
        }
        sentences
    }
}
