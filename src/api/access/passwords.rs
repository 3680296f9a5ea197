//! Passwords against their bcrypt hashes.
//!
//! A hash takes tens of milliseconds of a core by design, so it is computed off the threads that
//! serve, one at a time, and what was right is remembered: as a code under a key that only this
//! process has, so that memory holds neither passwords nor fast hashes of them. What was wrong is
//! not remembered: it would take the place of what is right.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::config::Secret;

/// Right passwords that are remembered: more than there are users. Several texts are one password
/// when they differ after 72 bytes.
const MOST_REMEMBERED: usize = 1024;

/// Checks passwords.
pub(super) struct Passwords {
    key: Key,
    right: Mutex<HashSet<[u8; 32]>>,
    one_at_a_time: Arc<Semaphore>,
}

impl Passwords {
    /// Remembers nothing yet.
    pub(super) fn new() -> Self {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new());
        Self {
            key: key.expect("the system has random numbers"),
            right: Mutex::default(),
            one_at_a_time: Arc::new(Semaphore::new(1)),
        }
    }

    /// Whether a hash is that of a password.
    pub(super) async fn is_right(&self, hash: &Secret, password: &str) -> bool {
        let code = self.code(hash, password);
        if self.right.lock().contains(&code) {
            return true;
        }
        let turn = self.one_at_a_time.clone().acquire_owned().await.expect("never closed");
        // Many requests of one client may come at once: the first has found out.
        if self.right.lock().contains(&code) {
            return true;
        }
        let (hash, password) = (hash.clone(), Secret::new(password.to_owned()));
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
        is_right
    }

    /// What stands for a password of a hash. A hash has no NUL.
    fn code(&self, hash: &Secret, password: &str) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(hash.reveal().as_bytes());
        context.update(&[0]);
        context.update(password.as_bytes());
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_right_is_remembered_and_what_was_wrong_is_not() {
        let hash = |password| Secret::new(bcrypt::hash(password, 4).expect("hashed"));
        let (one, other) = (hash("one"), hash("other"));
        let passwords = Passwords::new();
        for _ in 0..2 {
            assert!(passwords.is_right(&one, "one").await);
            assert!(!passwords.is_right(&one, "other").await);
            assert!(!passwords.is_right(&other, "one").await);
            assert!(!passwords.is_right(&one, "").await);
            assert_eq!(passwords.right.lock().len(), 1);
        }
        assert!(passwords.is_right(&other, "other").await);
        assert_eq!(passwords.right.lock().len(), 2);
    }

    #[tokio::test]
    async fn a_hash_that_is_none_has_no_password() {
        assert!(!Passwords::new().is_right(&Secret::new("$2y$".into()), "").await);
    }
}
