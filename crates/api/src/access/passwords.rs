//! Passwords against their bcrypt hashes.
//!
//! A bcrypt hash takes tens of milliseconds of CPU by design. So hashes are computed on a blocking
//! thread, one at a time, and correct passwords are cached. The cache holds an HMAC under a random
//! key of this process, so memory holds neither passwords nor fast hashes of them. Wrong passwords
//! are not cached: they would displace correct ones.
//!
//! The number of waiting checks is bounded, in all and per address, and so is the wait: a client that
//! guesses cannot lock others out.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::SystemRandom;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use promkairos_model::Secret;
use promkairos_model::limits::{PASSWORD_CHECKS, PASSWORD_CHECKS_PER_PEER, PASSWORD_WAIT};

/// Most correct passwords in the cache; more than there are users, because bcrypt ignores all after
/// 72 bytes, so several texts may match one hash.
const MOST_REMEMBERED: usize = 1024;

/// HMAC of a hash and a password.
type Code = [u8; 32];

/// Checks passwords.
pub(super) struct Passwords {
    key: Key,
    shared: Arc<Shared>,
}

/// State that the running checks share.
struct Shared {
    right: Mutex<HashSet<Code>>,
    checks: Mutex<HashMap<Code, Check>>,
    one_at_a_time: Arc<Semaphore>,
}

/// A password that is being checked or waits for a check.
struct Check {
    peer: Option<IpAddr>,
    is_right: watch::Receiver<Option<bool>>,
}

/// Too many passwords are being checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Busy;

impl Passwords {
    /// An empty cache.
    pub(super) fn new() -> Self {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new());
        let shared = Shared {
            right: Mutex::default(),
            checks: Mutex::default(),
            one_at_a_time: Arc::new(Semaphore::new(1)),
        };
        Self { key: key.expect("the system has random numbers"), shared: Arc::new(shared) }
    }

    /// Whether `password`, sent from this address, matches the hash.
    pub(super) async fn is_right(
        &self,
        hash: &Secret,
        password: &str,
        peer: Option<IpAddr>,
    ) -> Result<bool, Busy> {
        let code = self.code(hash, password);
        if self.shared.right.lock().contains(&code) {
            return Ok(true);
        }
        let mut is_right = self.begun(code, hash, password, peer.map(network))?;
        let found = timeout(PASSWORD_WAIT, is_right.wait_for(Option::is_some)).await;
        // The sender is dropped without a value only when the process ends.
        found.map(|found| found.is_ok_and(|found| *found == Some(true))).map_err(|_| Busy)
    }

    /// The check of this password: a running one or a new one.
    fn begun(
        &self,
        code: Code,
        hash: &Secret,
        password: &str,
        peer: Option<IpAddr>,
    ) -> Result<watch::Receiver<Option<bool>>, Busy> {
        let mut checks = self.shared.checks.lock();
        if let Some(check) = checks.get(&code) {
            return Ok(check.is_right.clone());
        }
        let of_peer = checks.values().filter(|check| check.peer == peer).count();
        if checks.len() >= PASSWORD_CHECKS || of_peer >= PASSWORD_CHECKS_PER_PEER {
            return Err(Busy);
        }
        let (sender, is_right) = watch::channel(None);
        checks.insert(code, Check { peer, is_right: is_right.clone() });
        let (hash, password) = (hash.clone(), Secret::new(password.to_owned()));
        tokio::spawn(self.shared.clone().check(code, hash, password, sender));
        Ok(is_right)
    }

    /// The HMAC of a hash and a password, separated by NUL: a hash contains no NUL.
    fn code(&self, hash: &Secret, password: &str) -> Code {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(hash.reveal().as_bytes());
        context.update(&[0]);
        context.update(password.as_bytes());
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

impl Shared {
    /// Waits for the permit, then computes the hash. The caller may be gone by then.
    async fn check(
        self: Arc<Self>,
        code: Code,
        hash: Secret,
        password: Secret,
        sender: watch::Sender<Option<bool>>,
    ) {
        let turn = self.one_at_a_time.clone().acquire_owned().await.expect("never closed");
        let checked = spawn_blocking(move || {
            let _turn = turn;
            bcrypt::verify(password.reveal(), hash.reveal()).unwrap_or(false)
        });
        let is_right = checked.await.unwrap_or(false);
        if is_right {
            let mut right = self.right.lock();
            if right.len() >= MOST_REMEMBERED {
                right.clear();
            }
            right.insert(code);
        }
        self.checks.lock().remove(&code);
        sender.send_replace(Some(is_right));
    }
}

/// The unit that counts as one address: for IPv6 the /64 network, because a client usually has a whole one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let bits = u128::from(address) >> 64 << 64;
            IpAddr::V6(bits.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(password: &str) -> Secret {
        Secret::new(bcrypt::hash(password, 4).expect("hashed"))
    }

    fn peer(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    #[tokio::test]
    async fn what_was_right_is_remembered_and_what_was_wrong_is_not() {
        let (one, other) = (hash("one"), hash("other"));
        let passwords = Passwords::new();
        for _ in 0..2 {
            assert_eq!(passwords.is_right(&one, "one", peer(1)).await, Ok(true));
            assert_eq!(passwords.is_right(&one, "other", peer(1)).await, Ok(false));
            assert_eq!(passwords.is_right(&other, "one", peer(1)).await, Ok(false));
            assert_eq!(passwords.is_right(&one, "", peer(1)).await, Ok(false));
            assert_eq!(passwords.shared.right.lock().len(), 1);
            assert!(passwords.shared.checks.lock().is_empty());
        }
        assert_eq!(passwords.is_right(&other, "other", peer(1)).await, Ok(true));
        assert_eq!(passwords.shared.right.lock().len(), 2);
    }

    #[tokio::test]
    async fn a_hash_that_is_none_has_no_password() {
        let none = Secret::new("$2y$".into());
        assert_eq!(Passwords::new().is_right(&none, "", None).await, Ok(false));
    }

    #[tokio::test]
    async fn who_guesses_keeps_nobody_else_out() {
        let passwords = Passwords::new();
        let hash = hash("right");
        let begin = |password: &str, from| {
            let code = passwords.code(&hash, password);
            passwords.begun(code, &hash, password, from)
        };
        // No check starts before this permit is released.
        let turn = passwords.shared.one_at_a_time.acquire().await.expect("never closed");
        let mut guesses = Vec::new();
        for guess in 0..PASSWORD_CHECKS_PER_PEER {
            guesses.push(begin(&guess.to_string(), peer(1)).expect("a place"));
        }
        assert_eq!(begin("one more", peer(1)).map(drop), Err(Busy));
        // The same password again starts no second check, from any address.
        for from in [peer(1), peer(2)] {
            begin("0", from).expect("it is under way");
        }
        let mut right = begin("right", peer(2)).expect("a place");
        assert_eq!(passwords.shared.checks.lock().len(), PASSWORD_CHECKS_PER_PEER + 1);
        drop(turn);
        assert_eq!(*right.wait_for(Option::is_some).await.expect("sent"), Some(true));
        for mut guess in guesses {
            assert_eq!(*guess.wait_for(Option::is_some).await.expect("sent"), Some(false));
        }
        begin("one more", peer(1)).expect("there are places again");
    }

    #[tokio::test]
    async fn the_line_of_all_has_an_end() {
        let passwords = Passwords::new();
        let hash = hash("right");
        let _turn = passwords.shared.one_at_a_time.acquire().await.expect("never closed");
        let begin = |guess: usize| {
            let (password, last) = (guess.to_string(), guess / PASSWORD_CHECKS_PER_PEER);
            let from = peer(u8::try_from(last).expect("few"));
            passwords.begun(passwords.code(&hash, &password), &hash, &password, from).map(drop)
        };
        for guess in 0..PASSWORD_CHECKS {
            begin(guess).expect("a place");
        }
        assert_eq!(begin(PASSWORD_CHECKS), Err(Busy));
    }

    #[test]
    fn an_address_of_ipv6_is_its_network() {
        let check = |address: &str, want: &str| {
            let [address, want] = [address, want].map(|text| text.parse::<IpAddr>().expect("one"));
            assert_eq!(network(address), want);
        };
        check("192.0.2.1", "192.0.2.1");
        check("::ffff:192.0.2.1", "192.0.2.1");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::");
    }
}
