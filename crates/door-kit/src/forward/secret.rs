//! The secret that the members of a group share.

use std::fmt;

use ring::hmac;

/// The minimum length of a secret.
const SECRET_BYTES_MIN: usize = 16;
/// The length of an authentication code.
pub(super) const CODE_BYTES: usize = 32;
/// Keeps the codes of forward headers apart from any other use of the secret.
const CONTEXT: &[u8] = b"tenure forward header 1\0";

/// The secret of a group. Forward headers carry a code made with it, never the secret itself.
#[derive(Clone)]
pub struct GroupSecret {
    key: hmac::Key,
}

/// The secret is too short to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a group's secret needs at least {SECRET_BYTES_MIN} bytes, not {bytes}")]
pub struct ShortSecret {
    /// Its length.
    pub bytes: usize,
}

impl GroupSecret {
    /// A secret of at least 16 random bytes, the same for all members.
    pub fn new(bytes: &[u8]) -> Result<GroupSecret, ShortSecret> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(ShortSecret { bytes: bytes.len() });
        }
        Ok(GroupSecret { key: hmac::Key::new(hmac::HMAC_SHA256, bytes) })
    }

    /// The code of these bytes.
    pub(super) fn sign(&self, bytes: &[u8]) -> [u8; CODE_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(CONTEXT);
        context.update(bytes);
        let mut code = [0; CODE_BYTES];
        code.copy_from_slice(context.sign().as_ref());
        code
    }

    /// Compares in constant time.
    pub(super) fn is_code_of(&self, bytes: &[u8], code: &[u8]) -> bool {
        let signed = [CONTEXT, bytes].concat();
        hmac::verify(&self.key, &signed, code).is_ok()
    }
}

impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_belongs_to_its_bytes_and_its_secret() {
        let secret = GroupSecret::new(&[1; 16]).unwrap();
        let other = GroupSecret::new(&[2; 16]).unwrap();
        let code = secret.sign(b"header");
        assert!(secret.is_code_of(b"header", &code));
        assert!(!secret.is_code_of(b"headers", &code));
        assert!(!other.is_code_of(b"header", &code));
        assert!(!secret.is_code_of(b"header", &code[..31]));
    }

    #[test]
    fn a_short_secret_is_refused() {
        assert_eq!(GroupSecret::new(&[0; 15]).unwrap_err(), ShortSecret { bytes: 15 });
    }
}
