//! Bodies, results and checkpoints as text. They come from untrusted clients, so they are never shown as anything else.

use maud::{Markup, html};
use tenure_hub::HubHandle;
use tenure_hub::words::Blob;

use super::format::bytes;

/// Longer bytes are not read for a page.
const READ_BYTES_MAX: u32 = 256 << 10;
/// How much of a text is shown.
const TEXT_CHARS_MAX: usize = 8_000;
/// How much of other bytes is shown.
const HEX_BYTES_MAX: usize = 256;
const HEX_LINE: usize = 16;

/// A preview with a link to all bytes.
pub(super) async fn of(hub: &HubHandle, title: &str, blob: Blob, path: &str) -> Markup {
    let length = u64::from(blob.bytes());
    let shown = if blob.bytes() == 0 {
        html! { p.empty { "empty" } }
    } else if blob.bytes() > READ_BYTES_MAX {
        html! { p.empty { "too long for a preview" } }
    } else {
        match hub.read(blob).await {
            Ok(content) => {
                html! { pre.preview tabindex="0" role="region" aria-label=(title) { (text(&content)) } }
            }
            Err(no) => html! { p.problem { "It cannot be read: " (no) "." } },
        }
    };
    html! {
        section.card {
            h2 { (title) " " small { (bytes(length)) } @if length > 0 { a.more href=(path) download { "Download" } } }
            (shown)
        }
    }
}

/// The bytes as people read them: JSON with line breaks, text, or hexadecimal digits.
fn text(content: &[u8]) -> String {
    let Ok(plain) = std::str::from_utf8(content) else { return hex(content) };
    if plain.contains('\0') {
        return hex(content);
    }
    let is_json = plain.trim_start().starts_with(['{', '[']);
    let pretty = is_json.then(|| serde_json::from_str::<serde_json::Value>(plain).ok()).flatten();
    let pretty = pretty.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let shown = pretty.as_deref().unwrap_or(plain);
    match shown.char_indices().nth(TEXT_CHARS_MAX) {
        None => shown.to_owned(),
        Some((end, _)) => format!("{}\n… and {} more", &shown[..end], bytes((shown.len() - end) as u64)),
    }
}

fn hex(content: &[u8]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for (index, line) in content[..content.len().min(HEX_BYTES_MAX)].chunks(HEX_LINE).enumerate() {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters: String =
            line.iter().map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { '·' }).collect();
        lines.push(format!("{:06x}  {:<47}  {letters}", index * HEX_LINE, digits.join(" ")));
    }
    if content.len() > HEX_BYTES_MAX {
        lines.push(format!("… and {} more", bytes((content.len() - HEX_BYTES_MAX) as u64)));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_line_breaks_text_is_cut_and_other_bytes_are_digits() {
        assert_eq!(text(br#"{"a":[1]}"#), "{\n  \"a\": [\n    1\n  ]\n}");
        assert_eq!(text(b"{not json"), "{not json");
        let long = "ä".repeat(TEXT_CHARS_MAX + 1);
        assert!(text(long.as_bytes()).ends_with("ä\n… and 2 B more"));
        assert!(text(&[0xff, 0x41]).starts_with("000000  ff 41 ") && text(&[0xff, 0x41]).ends_with("  ·A"));
        assert!(text(b"a\0b").starts_with("000000  61 00 62"));
        assert_eq!(text(&[0xff; 1000]).lines().count(), 17);
    }
}
