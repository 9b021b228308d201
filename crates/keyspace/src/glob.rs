//! Redis glob patterns: `*`, `?`, `[a-z]`, `[^a]` and a backslash.

/// Whether the whole text matches.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut on) = (0, 0);
    // The position of the last star and how much of the text it covers: one backtracking point is enough.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at + 1, on));
            at += 1;
            continue;
        }
        if at == pattern.len() && on == text.len() {
            return true;
        }
        if on < text.len()
            && let Some(next) = one(pattern, at, text[on])
        {
            (at, on) = (next, on + 1);
            continue;
        }
        match &mut star {
            Some((after, from)) if *from < text.len() => {
                *from += 1;
                (at, on) = (*after, *from);
            }
            _ => return false,
        }
    }
}

/// The common prefix of all matching texts.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

/// Where the pattern continues if its next element matches this byte.
fn one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        b'[' => class(pattern, at + 1, byte),
        literal => (literal == byte).then_some(at + 1),
    }
}

fn class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(at) {
            // An unclosed class ends with the pattern, as in Redis.
            None => return (found != negated).then_some(at),
            Some(b']') => return (found != negated).then_some(at + 1),
            Some(b'\\') if at + 1 < pattern.len() => {
                found |= pattern[at + 1] == byte;
                at += 2;
            }
            Some(low) if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let (low, high) = (*low.min(&pattern[at + 2]), *low.max(&pattern[at + 2]));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            Some(literal) => {
                found |= *literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_redis() {
        for (pattern, text, fits) in [
            ("worker:*:alive", "worker:w-1:alive", true),
            ("worker:*:alive", "worker:w-1:stats", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a[b-d]e", "ace", true),
            ("a[^b]e", "abe", false),
            ("a[^b]e", "ace", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxcxxb", false),
            ("[a", "a", true),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
        assert_eq!(literal_prefix(b"job:*"), b"job:");
    }

    #[test]
    fn many_stars_take_no_more_than_the_product_of_the_lengths() {
        let (pattern, text) = ("*a".repeat(1000), "a".repeat(2000) + "b");
        assert!(!glob(pattern.as_bytes(), text.as_bytes()));
    }
}
