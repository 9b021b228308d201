//! Bytes inside JSON, for bodies and results that are not text.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

/// Writes padding, and accepts input without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// With padding.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The padding may be missing; anything else must be exact.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// A field of JSON that holds bytes: text as text, others as base64 under a name that says so.
pub(crate) fn bytes_field(name: &str, bytes: &[u8]) -> (String, Value) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (name.to_owned(), text.into()),
        Err(_) => (format!("{name}_base64"), encode_base64(bytes).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_texts() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"\xff\xfe", "//4=")]
        {
            assert_eq!(encode_base64(bytes), text);
            assert_eq!(decode_base64(text).unwrap(), bytes);
        }
        for wrong in ["A", "Zg===", "Z g=", "Zm9v!", "ä"] {
            assert_eq!(decode_base64(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_padding_may_be_missing() {
        assert_eq!(decode_base64("Zg").unwrap(), b"f");
        assert_eq!(decode_base64("Zm8").unwrap(), b"fo");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_come_back(bytes: Vec<u8>) {
            proptest::prop_assert_eq!(decode_base64(&encode_base64(&bytes)), Some(bytes));
        }
    }
}
