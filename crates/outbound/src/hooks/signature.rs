//! The signature of a webhook: HMAC-SHA256 over the time and the body, so that a receiver can tell that the broker
//! sent this, and when.

use std::fmt::Write as _;

use ring::hmac;

/// The value of the signature header for a body that is sent at this time, in seconds since 1970.
pub fn signature(secret: &[u8], seconds: u64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut context = hmac::Context::with_key(&key);
    context.update(seconds.to_string().as_bytes());
    context.update(b".");
    context.update(body);
    let mut text = String::from("v1=");
    for byte in context.sign().as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_an_hmac_over_the_time_a_dot_and_the_body() {
        // Computed with Python's hmac module.
        assert_eq!(
            signature(b"0123456789abcdef", 1_790_000_000, b"{\"hook\":\"ops\"}"),
            "v1=6f0fadbe305c087bad811061ffc503259ee855cfc47c5e0f34f6a94cf4abc175"
        );
    }
}
