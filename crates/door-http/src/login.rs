//! Logins of browsers: a cookie stands for a key, so that no page has to keep the key itself.
//!
//! Logins live in memory: after a restart of the broker, people log in again. A login ends with its key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};
use tenure_hub::words::Timestamp;
use tenure_hub::{ClockReading, Grant};

/// The name of the cookie.
const NAME: &str = "tenure-login";
/// A login that is not used for this long has ended.
const IDLE: Duration = Duration::from_secs(12 * 60 * 60);
/// How many logins are kept; beyond that the one that was not used for longest ends.
const LOGINS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct LoginTable {
    /// By the hash of the cookie: the memory of the process contains no cookie.
    logins: Mutex<HashMap<[u8; 32], Login, RandomState>>,
}

struct Login {
    grant: Arc<Grant>,
    /// By the steady clock: no login ends because the time of day is set.
    last_used: Timestamp,
}

impl LoginTable {
    /// A new login. Returns the value of its cookie.
    pub(crate) fn begin(&self, now: ClockReading, grant: Arc<Grant>) -> String {
        let now = now.steady;
        // Two random UUIDs are 244 bits that no client can guess.
        let token = [(); 2].map(|()| uuid::Uuid::new_v4().simple().to_string()).concat();
        let mut logins = self.lock();
        logins.retain(|_, login| now <= login.last_used + IDLE);
        if logins.len() >= LOGINS_MAX
            && let Some(oldest) =
                logins.iter().min_by_key(|(_, login)| login.last_used).map(|(hash, _)| *hash)
        {
            logins.remove(&oldest);
        }
        logins.insert(hash(&token), Login { grant, last_used: now });
        token
    }

    /// The grant of a request's cookie, if its login has not ended.
    pub(crate) fn find(
        &self,
        now: ClockReading,
        headers: &HeaderMap,
        is_current: impl Fn(&Arc<Grant>) -> bool,
    ) -> Option<Arc<Grant>> {
        let now = now.steady;
        let key = hash(cookie(headers)?);
        let mut logins = self.lock();
        let login = logins.get_mut(&key)?;
        if login.last_used + IDLE < now || !is_current(&login.grant) {
            logins.remove(&key);
            return None;
        }
        login.last_used = now;
        Some(Arc::clone(&login.grant))
    }

    pub(crate) fn end(&self, headers: &HeaderMap) {
        if let Some(token) = cookie(headers) {
            self.lock().remove(&hash(token));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Login, RandomState>> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for LoginTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("LoginTable")
    }
}

/// The header field that sets the cookie. Pages of other sites do not send it, and no script can read it.
pub(crate) fn set(token: &str, is_tls: bool) -> Option<HeaderValue> {
    let secure = if is_tls { "; Secure" } else { "" };
    let age = IDLE.as_secs();
    let value = format!("{NAME}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&value).ok()
}

/// The header field that removes the cookie.
pub(crate) fn unset() -> HeaderValue {
    HeaderValue::from_static("tenure-login=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|cookies| cookies.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let headers = |text: &str| HeaderMap::from_iter([(COOKIE, text.parse().unwrap())]);
        assert_eq!(cookie(&headers("a=1; tenure-login=xyz; b=2")), Some("xyz"));
        assert_eq!(cookie(&headers("tenure-login2=xyz")), None);
        assert_eq!(cookie(&HeaderMap::new()), None);
    }

    fn at(wall: u64, steady: u64) -> ClockReading {
        ClockReading { wall: Timestamp(wall), steady: Timestamp(steady) }
    }

    #[test]
    fn a_login_ends_when_it_is_not_used_and_not_because_the_time_of_day_is_set() {
        let table = LoginTable::default();
        let token = table.begin(at(0, 0), Arc::new(Grant::everything()));
        let headers = HeaderMap::from_iter([(COOKIE, format!("tenure-login={token}").parse().unwrap())]);
        let idle = IDLE.as_millis() as u64;
        assert!(table.find(at(2 * idle, 1_000), &headers, |_| true).is_some(), "the clock was set forward");
        assert!(table.find(at(0, 1_000 + idle), &headers, |_| true).is_some());
        assert!(table.find(at(0, 1_001 + 2 * idle), &headers, |_| true).is_none(), "it was not used");
    }

    #[test]
    fn the_oldest_login_ends_when_there_are_too_many() {
        let table = LoginTable::default();
        let grant = Arc::new(Grant::everything());
        for number in 0..LOGINS_MAX as u64 + 5 {
            table.begin(at(number, number), Arc::clone(&grant));
        }
        assert_eq!(table.lock().len(), LOGINS_MAX);
        let later = LOGINS_MAX as u64 + 10 + IDLE.as_millis() as u64;
        table.begin(at(later, later), grant);
        assert_eq!(table.lock().len(), 1, "those that were not used have ended");
    }
}
